"""The steps of every decision on a member that may change something, whichever request it came with (KIP-848).

First the member is made or changed, and the group epoch raised if that matters to others; then the target is made anew
if the group epoch has risen and it is time; then the member takes a step towards the target. None of it is replayed yet
while the others are worked out: each step says what the next one needs. After Apache Kafka's `GroupMetadataManager`:
`updateSubscriptionMetadata`, `maybeUpdateTargetAssignment`, `maybeReconcile` and `replaceMember`.
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
from klamm.core.group.consumer.follow_ups import after_append, if_refused
from klamm.core.group.consumer.group_epoch import raise_epoch
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.held_back import begin_life
from klamm.core.group.consumer.member import ConsumerGroupMember, Target
from klamm.core.group.consumer.member_removal import tombstones_of_member
from klamm.core.group.consumer.reconciliation import Reconciliation
from klamm.core.group.consumer.target_assignment import make_target, may_make_target
from klamm.core.group.consumer.timers import rebalance_timer, target_timer
from klamm.core.group.events import Cause, MemberAssigned, MemberJoined, MemberRemoved
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
    """The member that a request is from, as it was found."""

    member: ConsumerGroupMember
    replaced: ConsumerGroupMember | None
    """The static member whose place it takes."""
    is_new: bool


def check_room(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Raises GROUP_MAX_SIZE_REACHED for somebody who is not in a group that is full."""
    limit = decision.groups.config.consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        text = f"The consumer group has reached its maximum capacity of {limit} members."
        raise KafkaError(ErrorCode.group_max_size_reached, text)


def watch_on_failure(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Have the member watched as before if nothing of the decision can be written: its timers may have been moved."""
    groups = decision.groups

    def watch_again(again: Result) -> None:
        member = group.members.get(member_id)
        if member is not None:
            groups.watch(group.group_id, member, again)

    if_refused(decision.result, watch_again)


# The member


def find_or_make(group: ConsumerGroup, member_id: str) -> Subject:
    """The member of that id, which may only begin to be one."""
    known = group.members.get(member_id)
    return Subject(known or ConsumerGroupMember(member_id), None, known is None)


def take_place(decision: Decision, group: ConsumerGroup, present: ConsumerGroupMember, member_id: str) -> Subject:
    """Give the place of a static member, with all that belongs to it, to another member id."""
    groups, result, now = decision
    group_id = group.group_id
    heir = present._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    tombstones_of_member(group_id, present.member_id, result)
    # The timers of the old member id stay: should the records be refused, they are needed, and else they find nobody.
    result.records.append(member_record(group_id, heir))
    if present.member_id in group.target:
        result.records.append(target_record(group_id, member_id, group.target[present.member_id]))
    result.records.append(current_assignment_record(group_id, heir))
    after_append(result, lambda: groups.lifetimes.left(group_id, present))
    detail = f"static member {heir.instance_id} is {member_id} from now on"
    result.events.append(MemberRemoved(group_id, present.member_id, Cause.STATIC_MEMBER_RETURNED, detail, now))
    return Subject(heir, present, True)


def write_member(decision: Decision, group: ConsumerGroup, subject: Subject, new: ConsumerGroupMember) -> bool:
    """Write down what the member says of itself now, if that is new; returns whether it names other topics."""
    _, result, now = decision
    if new != subject.member:
        result.records.append(member_record(group.group_id, new))
    if subject.is_new:
        member_hash(new.member_id)  # The next target needs it; of a thousand newcomers at once it would take too long.
        result.events.append(
            MemberJoined(group.group_id, new.member_id, new.instance_id, new.client_id, new.client_host, now)
        )
        begin_life(decision, group, new)
    return new.subscribed_topic_names != subject.member.subscribed_topic_names


def write_epoch(
    decision: Decision, group: ConsumerGroup, subject: Subject, new: ConsumerGroupMember, has_changed: bool
) -> tuple[int, Subscriptions | None]:
    """Raise the group epoch if the member reads other topics now, or if the topics themselves have changed.

    Returns the group epoch from now on, and what is read from now on if that was worked out.
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
    """Group epoch and part of the member in the target that is to be reconciled with now: a new one if it is due."""
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
    """Have the member take a step towards its part of the target of that epoch, and write down where it is then.

    `owned` is what it says that it has, None if it doesn't say. Raises FENCED_MEMBER_EPOCH.
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
