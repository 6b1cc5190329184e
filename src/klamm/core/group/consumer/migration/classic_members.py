"""SyncGroup, Heartbeat and LeaveGroup requests to a consumer group, from members of the classic protocol (KIP-848).

Their member epoch serves as their generation. They take a reconciliation step whenever they join. So they get
REBALANCE_IN_PROGRESS whenever there is a step to take, and are removed if they don't join in time. After Apache Kafka's
`GroupMetadataManager`: `classicGroupSyncToConsumerGroup`, `classicGroupHeartbeatToConsumerGroup` and
`classicGroupLeaveToConsumerGroup`.
"""

from __future__ import annotations

from collections.abc import Container

from klamm.core.coordinator.shard_contract import Ticket, TimerKey
from klamm.core.group.classic.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import CauseDetails, Decision
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.consumer.member_removal import check_static_member, expect_member, remove_members
from klamm.core.group.consumer.migration.embedded_assignment import assignment_bytes, protocol_name
from klamm.core.group.consumer.timers import join_timer, session_timer, sync_timer
from klamm.core.group.events import Cause
from klamm.core.group.follow_ups import retry_on_failure
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse, MemberResponse
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.sync_group_response import SyncGroupResponse

__all__ = ["heartbeat_in_consumer_group", "leave_consumer_group", "on_member_late", "sync_in_consumer_group"]


def sync_in_consumer_group(decision: Decision, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket) -> None:
    """Answers with the member's assignment, in the bytes that a leader would have written."""
    groups, result, _ = decision
    try:
        member = _check(group, request.member_id, request.group_instance_id, request.generation_id)
        _check_protocol(member, request)
    except KafkaError as error:
        result.reply(ticket, SyncGroupResponse(error_code=error.code))
        return
    if group.target_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        # A member that still has to revoke partitions has joined already, and joins again when it has revoked them.
        _await_join(decision, group, member)
        result.reply(ticket, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return
    assert member.classic is not None
    groups.awaiting_sync.discard((group.group_id, member.member_id))
    result.cancel(sync_timer(group.group_id, member.member_id))
    result.arm(session_timer(group.group_id, member.member_id), member.classic.session_timeout_ms)
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(groups.topics, member.assigned, member.classic.protocols, protocol_name(member)),
    )
    result.reply(ticket, response)


def heartbeat_in_consumer_group(
    decision: Decision, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket
) -> None:
    """Restarts the member's session, and tells it to join again if there is a step to take.

    Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.
    """
    result = decision.result
    member = _check(group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.classic is not None
    result.arm(session_timer(group.group_id, member.member_id), member.classic.session_timeout_ms)
    code = ErrorCode.NONE
    if (
        member.member_epoch < group.target_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    ):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        _await_join(decision, group, member)
    result.reply(ticket, HeartbeatResponse(error_code=code))


def leave_consumer_group(decision: Decision, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket) -> None:
    """Removes the members that the request names, of either protocol, each with its own error code."""
    leaving: dict[str, ConsumerGroupMember] = {}
    responses = []
    for identity in request.members:
        code = ErrorCode.NONE
        try:
            member = _named(group, identity)
            leaving[member.member_id] = member
        except KafkaError as error:
            code = error.code
        responses.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        )
    if leaving:
        remove_members(decision, group, list(leaving.values()), CauseDetails(Cause.MEMBER_LEFT, "left"))
    decision.result.reply(ticket, LeaveGroupResponse(members=responses))


def on_member_late(decision: Decision, timer: TimerKey, awaited: Container[tuple[str, str]], what: str) -> None:
    """Removes the member of the timer, which did not send JoinGroup or SyncGroup in time.

    Does nothing if the member is not in `awaited` any more: its group has become classic and then a consumer group
    again. Kafka's `convertToClassicGroup` leaves the timer running, which then fences a member that was not told to
    join again.
    """
    group_id, member_id = timer.owner_id, str(timer.detail)
    if (group_id, member_id) not in awaited:
        return
    group = decision.groups.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        decision.groups.await_nothing(group_id, member_id)
        return
    cause = CauseDetails(Cause.REBALANCE_TIMED_OUT, f"did not {what} within {member.rebalance_timeout_ms} ms")
    remove_members(decision, group, [member], cause)
    retry_on_failure(decision.result, timer)


def _check(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerGroupMember:
    if instance_id is None:
        member = expect_member(group, member_id)
    else:
        member = check_static_member(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if member.member_epoch != generation:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} "
            f"of member {member_id}.",
        )
    return member


def _check_protocol(member: ConsumerGroupMember, request: SyncGroupRequest) -> None:
    is_other_type = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
    if is_other_type or request.protocol_name not in (None, protocol_name(member)):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _waits_for_others(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Returns whether another member still owns a partition of the member's target."""
    return any(
        partition not in member.assigned.get(topic_id, {}) and group.owner(topic_id, partition) is not None
        for topic_id, partitions in group.target.get(member.member_id, {}).items()
        for partition in partitions
    )


def _await_join(decision: Decision, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Notes that the member was told to join again; its time for that runs from the first such answer."""
    key = (group.group_id, member.member_id)
    if key not in decision.groups.awaiting_join:
        decision.groups.awaiting_join.add(key)
        decision.result.arm(join_timer(*key), member.rebalance_timeout_ms)


def _named(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
    if identity.group_instance_id is None:
        return expect_member(group, identity.member_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {identity.group_instance_id} is unknown.")
    # An administrator need not know the member id.
    return check_static_member(group, identity.member_id or member.member_id, identity.group_instance_id)
