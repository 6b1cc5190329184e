"""The removal of members: they leave, their session expires, or they do not revoke partitions in time (KIP-848).

Each removal raises the group epoch and frees the member's partitions at once. A static member may leave for a while; it
then keeps its place until its session expires. After Apache Kafka's `GroupMetadataManager`: `consumerGroupLeave`,
`consumerGroupFenceMembers` and the timeouts that call it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.consumer.assignor_input import remember_owners
from klamm.core.group.consumer.changed_subscriptions import after_removal
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import (
    current_assignment_record,
    current_assignment_tombstone,
    member_tombstone,
    regex_tombstone,
    target_tombstone,
)
from klamm.core.group.consumer.consumer_groups import CauseDetails, Decision
from klamm.core.group.consumer.group_epoch import announce_stability, raise_epoch
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import (
    NO_PARTITIONS,
    STATIC_LEAVING_EPOCH,
    Assigned,
    ConsumerGroupMember,
)
from klamm.core.group.consumer.migration.downgrade import downgrade, may_downgrade
from klamm.core.group.consumer.target_assignment import arm_target_timer
from klamm.core.group.consumer.timers import rebalance_timer, session_timer
from klamm.core.group.crash_loops import DEATHS_IN_A_LOOP
from klamm.core.group.events import Cause, MemberRemoved
from klamm.core.group.follow_ups import after_append, retry_on_failure
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

__all__ = [
    "check_static_member",
    "leave",
    "on_rebalance_timer",
    "expect_member",
    "on_session_timer",
    "remove_members",
    "tombstones_of_member",
]


def leave(decision: Decision, request: ConsumerGroupHeartbeatRequest, ticket: Ticket) -> None:
    """Removes the member that sent epoch -1; lets a static member that sent -2 keep its place while it is away.

    Raises GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    group = decision.groups.expect(request.group_id)
    if request.instance_id is None:
        member = expect_member(group, request.member_id)
    else:
        member = check_static_member(group, request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            _leave_for_a_while(group, member, ticket, decision.result)
            return
    why = "left"
    if member.instance_id is not None:
        why = f"with instance id {member.instance_id} left"
    remove_members(decision, group, [member], CauseDetails(Cause.MEMBER_LEFT, why))
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    decision.result.reply(ticket, response)


def on_session_timer(decision: Decision, group_id: str, member_id: str) -> None:
    """Removes a member whose session has expired."""
    groups = decision.groups
    group = groups.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        return
    timeout_ms = groups.session_timeout_ms(group_id, member)
    cause = CauseDetails(Cause.SESSION_TIMED_OUT, f"sent no heartbeat for {timeout_ms} ms")
    remove_members(decision, group, [member], cause)
    retry_on_failure(decision.result, session_timer(group_id, member_id))


def on_rebalance_timer(decision: Decision, group_id: str, member_id: str) -> None:
    """Removes a member that did not revoke its partitions in time, because other members wait for them."""
    group = decision.groups.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        return
    if member.state is not MemberState.UNREVOKED_PARTITIONS or member.member_epoch < 0:
        return
    detail = f"did not let go of its partitions within {member.rebalance_timeout_ms} ms at epoch {member.member_epoch}"
    remove_members(decision, group, [member], CauseDetails(Cause.REBALANCE_TIMED_OUT, detail))
    retry_on_failure(decision.result, rebalance_timer(group_id, member_id))


def remove_members(
    decision: Decision, group: ConsumerGroup, members: Sequence[ConsumerGroupMember], cause: CauseDetails
) -> None:
    """Removes members with all their records and raises the group epoch once.

    If only members of the classic protocol are left, and `may_downgrade` allows it, the group becomes a classic group.
    """
    groups, result, now = decision
    group_id = group.group_id
    ends = {member.member_id: _end_life(decision, group_id, member, cause) for member in members}
    # Their timers keep running: they are needed unchanged if the records are refused; otherwise they find no member.
    for member in members:
        after_append(result, partial(groups.await_nothing, group_id, member.member_id))
        result.events.append(MemberRemoved(group_id, member.member_id, cause.cause, ends[member.member_id].detail, now))
    if may_downgrade(groups, group, members):
        reason = f"Downgrade group {group_id} from consumer to classic for member leaving."
        downgrade(decision, group, leaving=members, rebalance=reason)
        return
    for member in members:
        tombstones_of_member(group_id, member.member_id, result)
    leavers = Counter(member.subscribed_topic_regex for member in members if member.subscribed_topic_regex)
    dropped = [regex for regex, count in leavers.items() if group.regex_counts.get(regex) == count]
    for regex in dropped:
        result.records.append(regex_tombstone(group_id, regex))
    subscriptions = after_removal(group, members, dropped)
    removed = {member.member_id for member in members}
    causes = [end._replace(detail=f"member {each} {end.detail}") for each, end in ends.items()]
    left = [member_id for member_id in group.members if member_id not in removed]
    member_id = members[0].member_id if len(members) == 1 else None
    raise_epoch(decision, group, subscriptions, causes, member_id=member_id, member_ids=left)
    remember_owners(groups, group, {each: target for each, target in group.target.items() if each not in removed}, now)
    if left:
        arm_target_timer(decision, group)
    else:
        announce_stability(decision, group_id)


def _end_life(decision: Decision, group_id: str, member: ConsumerGroupMember, cause: CauseDetails) -> CauseDetails:
    """Ends the member's lifetime and returns the cause, extended if the member is in a crash loop."""
    groups, result, now = decision
    has_left = member.member_epoch == STATIC_LEAVING_EPOCH
    if has_left or cause.cause not in (Cause.SESSION_TIMED_OUT, Cause.REBALANCE_TIMED_OUT):
        after_append(result, partial(groups.lifetimes.left, group_id, member))
        return cause
    deaths = groups.lifetimes.deaths_with(group_id, member, now)
    after_append(result, partial(groups.lifetimes.died, group_id, member, now))
    if deaths < DEATHS_IN_A_LOOP:
        return cause
    detail = f"{cause.detail}; it is in a crash loop: {deaths} deaths without a commit"
    return cause._replace(detail=detail, crash_loop=True)


def tombstones_of_member(group_id: str, member_id: str, result: Result) -> None:
    """Appends the tombstones of the member's assignment, its target and its metadata, in this order."""
    result.records.append(current_assignment_tombstone(group_id, member_id))
    result.records.append(target_tombstone(group_id, member_id))
    result.records.append(member_tombstone(group_id, member_id))


def expect_member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    """Returns the member with this id. Raises UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        text = f"Member {member_id} is not a member of group {group.group_id}."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member


def check_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """Returns the static member with this instance id, which must have this member id.

    Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def _leave_for_a_while(group: ConsumerGroup, member: ConsumerGroupMember, ticket: Ticket, result: Result) -> None:
    # The member that returns, under another member id, counts as their owner since epoch 0.
    away = member._replace(
        member_epoch=STATIC_LEAVING_EPOCH, pending_revocation=NO_PARTITIONS, assigned=_from_epoch_0(member.assigned)
    )
    result.records.append(current_assignment_record(group.group_id, away))
    result.reply(ticket, ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=STATIC_LEAVING_EPOCH))


def _from_epoch_0(assigned: Assigned) -> Assigned:
    return {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in assigned.items()} or NO_PARTITIONS
