"""Holding back members in a crash loop (`member_lifetimes.py` finds them).

Such a member joins like any other but gets no partitions during a back-off that grows with each death; the other
members keep theirs. When the back-off ends, a new target includes the member.

The log shows which members are held back: those that read topics but have no part in the target, not even an empty one.
So a coordinator that takes the group over, and knows of no deaths, also ends the back-off, after the shortest one.
"""

from __future__ import annotations

from klamm.core.coordinator.shard_contract import Result
from klamm.core.group.consumer.assignor_input import Description
from klamm.core.group.consumer.changed_subscriptions import at_present
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import CauseDetails, ConsumerGroups, Decision
from klamm.core.group.consumer.group_epoch import raise_epoch
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.consumer.timers import back_off_timer, target_timer
from klamm.core.group.events import Cause, Remark
from klamm.core.group.follow_ups import RETRY_MS, after_append, retry_on_failure

__all__ = ["begin_life", "is_held_back", "on_back_off_timer", "watch_back_offs", "watch_held_back"]


def begin_life(decision: Decision, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Begins the lifetime of a new member, and publishes a remark if the member is held back."""
    groups, result, now = decision
    group_id = group.group_id
    after_append(result, lambda: groups.lifetimes.joined(group_id, member.member_id, now))
    until = groups.lifetimes.held_back(group_id, [*group.members.values(), member], now).get(member.member_id)
    if until is not None:
        text = f"member {member.member_id} gets no partitions for {until - now} ms: it died again and again"
        result.events.append(Remark(group_id, text))


def watch_back_offs(decision: Decision, group: ConsumerGroup, described: Description) -> None:
    """Arms a timer for the back-off of each member that a new target holds back."""
    groups, result, now = decision
    change = described.change
    for member_id in described.held_back:
        is_changed = change is not None and change.new.member_id == member_id
        member = change.new if change is not None and is_changed else group.members[member_id]
        until = groups.lifetimes.back_off_end(group.group_id, member, now)
        if until is not None:
            result.arm(back_off_timer(group.group_id, member_id), until - now)


def is_held_back(groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Returns whether the member has no part in the present target because it was held back when that was made."""
    return (
        member.member_id not in group.target
        and group.target_epoch >= group.epoch
        and bool(groups.subscribed_names(group, member))
    )


def watch_held_back(groups: ConsumerGroups, group: ConsumerGroup, result: Result, delay_ms: int) -> None:
    """Arms timers that check after that delay whether the held-back members must still be held back."""
    for member in group.members.values():
        if is_held_back(groups, group, member):
            result.arm(back_off_timer(group.group_id, member.member_id), delay_ms)


def on_back_off_timer(decision: Decision, group_id: str, member_id: str) -> None:
    """Raises the group epoch so that the member gets partitions, unless it must be held back longer."""
    groups, result, now = decision
    group = groups.get(group_id)
    if group is None or member_id not in group.members:
        return
    if group_id in groups.assigning:
        result.arm(back_off_timer(group_id, member_id), RETRY_MS)  # The new target may hold the member back.
        return
    if not is_held_back(groups, group, group.members[member_id]):
        return
    until = groups.lifetimes.held_back(group_id, group.members.values(), now).get(member_id)
    if until is not None:
        result.arm(back_off_timer(group_id, member_id), until - now)  # Another member of the same name has died.
        return
    cause = CauseDetails(Cause.MEMBER_HELD_BACK, f"member {member_id} was held back and may have partitions again")
    raise_epoch(decision, group, at_present(group), [cause], member_id=member_id, member_ids=list(group.members))
    result.arm(target_timer(group_id), 0)
    retry_on_failure(result, back_off_timer(group_id, member_id))
