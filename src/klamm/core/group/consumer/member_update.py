"""The steps of a decision on a member that may change something, the same for heartbeats and joins (KIP-848).

First the member is created or changed, and the group epoch is raised if the subscriptions or topics have changed. Then
a new target is made if the group epoch has risen and it is time. Last, the member takes a step towards the target. No
record is replayed between the steps: each step returns what the next one needs. After Apache Kafka's
`GroupMetadataManager`: `updateSubscriptionMetadata`, `maybeUpdateTargetAssignment`, `maybeReconcile` and
`replaceMember`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from klamm.core.coordinator.shard_contract import Result
from klamm.core.group.assignors.java_hash_order import member_hash
from klamm.core.group.consumer.assignor_input import Change
from klamm.core.group.consumer.changed_subscriptions import Subscriptions, after_change
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import (
    current_assignment_record,
    legacy_metadata_tombstone,
    member_record,
    target_record,
)
from klamm.core.group.consumer.consumer_groups import CauseDetails, Decision
from klamm.core.group.consumer.group_epoch import raise_epoch
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.held_back import begin_life
from klamm.core.group.consumer.member import ConsumerGroupMember, Target
from klamm.core.group.consumer.member_removal import tombstones_of_member
from klamm.core.group.consumer.reconciliation import Reconciliation
from klamm.core.group.consumer.target_assignment import make_target, may_make_target
from klamm.core.group.consumer.timers import rebalance_timer, target_timer
from klamm.core.group.events import Cause, MemberAssigned, MemberJoined, MemberRemoved
from klamm.core.group.follow_ups import after_append, if_refused
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_heartbeat_request import TopicPartitions
from klamm.protocol.types import TopicId

__all__ = [
    "Subject",
    "check_room",
    "choose_target",
    "find_or_make",
    "reconcile",
    "take_place",
    "watch_on_failure",
    "write_epoch",
    "write_member",
]


class Subject(NamedTuple):
    """The member that sent a request, found or new."""

    member: ConsumerGroupMember
    replaced: ConsumerGroupMember | None
    """The static member whose place it takes."""
    is_new: bool


def check_room(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Raises GROUP_MAX_SIZE_REACHED if the group is full and the member is not in it."""
    limit = decision.groups.config.consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        text = f"The consumer group has reached its maximum capacity of {limit} members."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def watch_on_failure(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Arms the member's timers again if the records are refused, since the decision may have moved them."""
    groups = decision.groups

    def watch_again(again: Result) -> None:
        member = group.members.get(member_id)
        if member is not None:
            groups.watch(group.group_id, member, again)

    if_refused(decision.result, watch_again)


# The member


def find_or_make(group: ConsumerGroup, member_id: str) -> Subject:
    """Returns the member with this id, or a new one."""
    known = group.members.get(member_id)
    return Subject(known or ConsumerGroupMember(member_id), None, known is None)


def take_place(decision: Decision, group: ConsumerGroup, present: ConsumerGroupMember, member_id: str) -> Subject:
    """Gives the place of a static member, with its target and assignment, to another member id."""
    groups, result, now = decision
    group_id = group.group_id
    heir = present._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    tombstones_of_member(group_id, present.member_id, result)
    # The timers of the old member id stay: they are needed if the records are refused; otherwise they find no member.
    result.records.append(member_record(group_id, heir))
    if present.member_id in group.target:
        result.records.append(target_record(group_id, member_id, group.target[present.member_id]))
    result.records.append(current_assignment_record(group_id, heir))
    after_append(result, lambda: groups.lifetimes.left(group_id, present))
    detail = f"static member {heir.instance_id} is {member_id} from now on"
    result.events.append(MemberRemoved(group_id, present.member_id, Cause.STATIC_MEMBER_RETURNED, detail, now))
    return Subject(heir, present, True)


def write_member(decision: Decision, group: ConsumerGroup, subject: Subject, new: ConsumerGroupMember) -> bool:
    """Writes the member's record if the member has changed; returns whether its topic names have changed."""
    _, result, now = decision
    if new != subject.member:
        result.records.append(member_record(group.group_id, new))
    if subject.is_new:
        member_hash(new.member_id)  # Cached for the next target: a thousand new hashes at once would take too long.
        result.events.append(
            MemberJoined(group.group_id, new.member_id, new.instance_id, new.client_id, new.client_host, now)
        )
        begin_life(decision, group, new)
    return new.subscribed_topic_names != subject.member.subscribed_topic_names


def write_epoch(
    decision: Decision, group: ConsumerGroup, subject: Subject, new: ConsumerGroupMember, has_changed: bool
) -> tuple[int, Subscriptions | None]:
    """Raises the group epoch if the member's subscription or the topics themselves have changed.

    Returns the group epoch from now on, and the new subscriptions if they were computed, else None.
    """
    groups, result, now = decision
    group_id = group.group_id
    if not has_changed and group_id not in groups.outdated:
        return group.epoch, None
    subscriptions = after_change(group, subject.member, new)
    causes: list[CauseDetails] = []
    if has_changed:
        is_looping = groups.lifetimes.is_looping(group_id, new, now)
        causes.append(_cause(subject, new, is_looping))
    elif subscriptions.metadata_hash(groups.topics) != group.metadata_hash:
        causes += groups.causes(group_id)
    epoch = group.epoch
    if causes:
        member_ids = list(group.members)
        if subject.replaced is not None:
            member_ids.remove(subject.replaced.member_id)
        if subject.is_new:
            member_ids.append(new.member_id)
        caused_by = new.member_id if has_changed else None
        epoch = raise_epoch(decision, group, subscriptions, causes, member_id=caused_by, member_ids=member_ids)
    else:
        after_append(result, lambda: groups.topics_are_seen(group_id))
    if group.has_legacy_metadata:
        result.records.append(legacy_metadata_tombstone(group_id))
    return epoch, subscriptions


def _cause(subject: Subject, new: ConsumerGroupMember, is_looping: bool) -> CauseDetails:
    if subject.replaced is not None:
        detail = f"static member {new.instance_id} came back with another subscription"
        return CauseDetails(Cause.STATIC_MEMBER_RETURNED, detail)
    if subject.is_new:
        more = "; it is in a crash loop" if is_looping else ""
        return CauseDetails(Cause.MEMBER_JOINED, f"member {new.member_id} joined{more}", crash_loop=is_looping)
    return CauseDetails(Cause.SUBSCRIPTION_CHANGED, f"member {new.member_id} changed its subscription")


# The target


def choose_target(
    decision: Decision,
    group: ConsumerGroup,
    change: Change,
    *,
    epoch: int,
    subscriptions: Subscriptions | None,
) -> tuple[int, Target]:
    """Returns the epoch of the target to reconcile with, a new one if it is due, and the member's part of it."""
    groups, result, now = decision
    new = change.new
    if group.target_epoch < epoch and group.group_id not in groups.assigning:
        wait_ms = may_make_target(groups, group, now)
        if wait_ms is None:
            made = make_target(decision, group, epoch, subscriptions, change)
            if made is not None:
                return epoch, made[new.member_id]
        else:
            result.arm(target_timer(group.group_id), wait_ms)
    return group.target_epoch, group.target_of(new.member_id, new.instance_id)


# Reconciliation


def reconcile(
    decision: Decision,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    *,
    towards: tuple[int, Target],
    has_subscription_changed: bool,
    owned: Sequence[TopicPartitions] | None,
) -> ConsumerGroupMember:
    """Takes the member one step towards its part of the target of that epoch, and writes its new assignment.

    `owned` are the partitions that the request lists as owned, None if it has no list. Raises FENCED_MEMBER_EPOCH.
    """
    target_epoch, target = towards
    if not has_subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    groups, result, now = decision
    names = groups.subscribed_names(group, member)
    topics = groups.topics

    def is_subscribed_to(topic_id: TopicId) -> bool:
        facts = topics.by_id(topic_id)
        return facts is not None and facts.name in names

    reconciled = Reconciliation(
        member=member,
        target_epoch=target_epoch,
        target=target,
        has_subscription_changed=has_subscription_changed,
        is_subscribed_to=is_subscribed_to,
        owner=group.owner,
        owned=owned,
    ).next_member()
    if reconciled == member:
        return member
    group_id, member_id = group.group_id, member.member_id
    result.records.append(current_assignment_record(group_id, reconciled))
    if reconciled.state is MemberState.UNREVOKED_PARTITIONS and reconciled.classic is None:
        result.arm(rebalance_timer(group_id, member_id), reconciled.rebalance_timeout_ms)
    else:
        result.cancel(rebalance_timer(group_id, member_id))
    assigned = groups.by_topic_name(reconciled.assigned)
    result.events.append(MemberAssigned(group_id, member_id, reconciled.member_epoch, assigned, now))
    return reconciled
