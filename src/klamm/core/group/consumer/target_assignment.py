"""Target assignments: which assignor makes one, when, and which records are written (KIP-848).

A target is made when the group epoch has risen, at most once in `group.consumer.assignment.interval.ms` (KIP-1263). For
a small group it is made in the request that finds it due. For a large group that would delay all other requests, so a
background task makes it. It is used only if the group still has the same epoch and the same members. After Apache
Kafka's `GroupMetadataManager.maybeUpdateTargetAssignment` and `TargetAssignmentBuilder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.assignors.assignor import Assignor, AssignorFailed
from klamm.core.group.assignors.load import LoadAssignor
from klamm.core.group.consumer.assignor_input import Change, Description, describe, remember_owners
from klamm.core.group.consumer.changed_subscriptions import Subscriptions, preferred_assignor
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import (
    encode_record,
    target_epoch_record,
    target_record,
    target_tombstone,
)
from klamm.core.group.consumer.consumer_groups import ConsumerGroups, Decision
from klamm.core.group.consumer.held_back import watch_back_offs
from klamm.core.group.consumer.member import NO_TARGET, Target
from klamm.core.group.consumer.partition_moves import moves_to
from klamm.core.group.consumer.timers import target_timer
from klamm.core.group.events import GroupType, PartitionsByTopic, Remark, TargetChosen
from klamm.core.group.follow_ups import RETRY_MS, after_append, retry_on_failure
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import FramedRecords, frame_records
from klamm.protocol.types import Millis

__all__ = [
    "MakeTarget",
    "arm_target_timer",
    "make_target",
    "may_make_target",
    "on_target_made",
    "on_target_timer",
]

INLINE_LIMIT: Final = 800
"""Largest size of a group whose target is made at once: subscriptions of members to topics, plus partitions. The
built-in assignors take one to four microseconds for each."""


class Prepared(NamedTuple):
    """A target that is ready to be written."""

    epoch: int
    assignor: str
    target: Mapping[str, Target]
    """Each member's part of the target."""
    assignments: Mapping[str, PartitionsByTopic]
    """The same by topic name."""
    records: list[CoordinatorRecord]
    """One for each member whose part has changed or who is held back."""
    framed: FramedRecords | None = None
    """The same records in the format of a batch, if a background task made the target."""


@dataclass(frozen=True, slots=True, repr=False)
class MakeTarget:
    """The background task that makes the target of a large group."""

    owner_id: str
    epoch: int
    """The group epoch for which the target is made."""
    assignor: Assignor
    described: Description

    def run(self) -> Prepared:
        """Makes the target, and encodes its records: for a thousand members that takes as long as replaying them."""
        prepared = self.prepare()
        return prepared._replace(framed=frame_records(map(encode_record, prepared.records)))

    def prepare(self) -> Prepared:
        """Runs the assignor and builds the records: all the slow work of a small group."""
        spec, known = self.described.specification(), self.described.target
        assigned = self.assignor.assign(spec)
        target = {member_id: assigned.get(member_id) or NO_TARGET for member_id in spec.members}
        records = []
        for member_id, wanted in target.items():
            if not spec.members[member_id].may_be_assigned:
                records.append(target_tombstone(self.owner_id, member_id))  # Marks the member in the log as held back.
            elif known.get(member_id) != wanted:
                records.append(target_record(self.owner_id, member_id, wanted))  # A new member gets an empty one, too.
        return Prepared(
            epoch=self.epoch,
            assignor=self.assignor.name,
            target=target,
            assignments={
                member_id: {spec.topics[topic_id].name: partitions for topic_id, partitions in wanted.items()}
                for member_id, wanted in target.items()
            },
            records=records,
        )


def may_make_target(groups: ConsumerGroups, group: ConsumerGroup, now: Millis) -> int | None:
    """Returns None if a target may be made now, else the time to wait in milliseconds."""
    interval_ms = groups.group_config_of(group.group_id).assignment_interval_ms
    elapsed_ms = now - group.assigned_at_ms
    # If the wall clock was set back, the elapsed time is unknown; the group must not wait until the clock catches up.
    if group.assigned_at_ms == 0 or interval_ms == 0 or not 0 <= elapsed_ms < interval_ms:
        return None
    return interval_ms - elapsed_ms


def arm_target_timer(decision: Decision, group: ConsumerGroup) -> None:
    """Arms the timer that makes the target, if no heartbeat makes it earlier: more changes may follow meanwhile."""
    interval_ms = decision.groups.group_config_of(group.group_id).assignment_interval_ms
    if interval_ms:
        decision.result.arm(target_timer(group.group_id), interval_ms)


def make_target(
    decision: Decision, group: ConsumerGroup, epoch: int, subscriptions: Subscriptions | None, change: Change | None
) -> Mapping[str, Target] | None:
    """Writes and returns a new target for that group epoch; returns None if a background task will make it.

    `subscriptions` are the ones after the change; None means the present ones. Raises UNKNOWN_SERVER_ERROR if the
    assignor fails.
    """
    groups, result, now = decision
    assignor = preferred_assignor(
        group, None if change is None else change.old, None if change is None else change.new, groups.default_assignor
    )
    # Members that joined before may prefer an assignor that the configuration no longer names.
    chosen = groups.assignors.get(assignor) or groups.assignors[groups.default_assignor]
    is_by_load = chosen.name == LoadAssignor.name
    described = describe(groups, group, subscriptions, change, now, is_by_load=is_by_load)
    watch_back_offs(decision, group, described)
    task = MakeTarget(group.group_id, epoch, chosen, described)
    if described.size > INLINE_LIMIT:
        result.tasks.append(task)
        after_append(result, lambda: groups.assigning.__setitem__(group.group_id, epoch))
        return None
    try:
        prepared = task.prepare()
    except AssignorFailed as failure:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to compute a new target assignment for epoch {epoch}: {failure}",
        ) from failure
    _write(decision, group, prepared, change)
    return prepared.target


def on_target_timer(decision: Decision, group_id: str) -> None:
    """Makes the target at the end of the wait, if no heartbeat has made it meanwhile."""
    groups, result, now = decision
    group = groups.get(group_id)
    if group is None or group.is_empty or group.epoch <= group.target_epoch or group_id in groups.assigning:
        return
    wait_ms = may_make_target(groups, group, now)
    if wait_ms is not None:
        result.arm(target_timer(group_id), wait_ms)
        return
    try:
        make_target(decision, group, group.epoch, None, None)
    except KafkaError as error:
        # The next heartbeat tries again, and its member gets the error.
        result.events.append(Remark(group_id, error.message or error.code.name))
        return
    if result.records:
        retry_on_failure(result, target_timer(group_id))


def on_target_made(decision: Decision, task: MakeTarget, outcome: Prepared | BaseException) -> None:
    """Writes the target of a background task, if the group is still the one that it was made for."""
    groups, result, _ = decision
    group_id, epoch = task.owner_id, task.epoch
    if groups.assigning.get(group_id) == epoch:
        del groups.assigning[group_id]
    group = groups.get(group_id)
    if group is None or group.is_empty or group.epoch <= group.target_epoch or group_id in groups.assigning:
        return
    if isinstance(outcome, BaseException):
        text = f"Failed to compute a new target assignment for epoch {epoch}: {outcome!r}"
        result.events.append(Remark(group_id, text))
        result.arm(target_timer(group_id), max(RETRY_MS, groups.group_config_of(group_id).assignment_interval_ms))
        return
    if group.epoch != epoch or not outcome.target.keys() <= group.members.keys():
        result.arm(target_timer(group_id), 0)
        return
    _write(decision, group, outcome, None)
    retry_on_failure(result, target_timer(group_id))


def _write(decision: Decision, group: ConsumerGroup, prepared: Prepared, change: Change | None) -> None:
    groups, result, now = decision
    group_id, epoch, target = group.group_id, prepared.epoch, prepared.target
    if not result.records:
        result.framed = prepared.framed
    result.records += prepared.records
    result.records.append(target_epoch_record(group_id, epoch, now))
    result.cancel(target_timer(group_id))
    moves = moves_to(target, groups, group, change)
    result.events.append(
        TargetChosen(group_id, GroupType.CONSUMER, epoch, prepared.assignor, prepared.assignments, now, moves)
    )
    remember_owners(groups, group, target, now)
