"""What follows from a LeaveGroup request.

Since version 3 one request may name several members, and an administrator may name static ones by their instance id
alone (KIP-345). After Apache Kafka's `GroupMetadataManager.classicGroupLeave`.
"""

from __future__ import annotations

from klamm.core.coordinator.contract import Result, Ticket
from klamm.core.group.classic_group import ClassicGroup
from klamm.core.group.config import GroupConfig
from klamm.core.group.member import session_timer
from klamm.core.group.rebalance import answer_parked_requests, maybe_complete_join, prepare_rebalance
from klamm.core.group.registry import GroupRegistry
from klamm.core.group.states import GroupState
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse, MemberResponse
from klamm.protocol.types import Millis

__all__ = ["leave_group"]


def leave_group(
    groups: GroupRegistry, config: GroupConfig, request: LeaveGroupRequest, ticket: Ticket, now: Millis
) -> Result:
    """Let the members go that the request names, each with its own error code.

    Raises UNKNOWN_MEMBER_ID if there is no group.
    """
    group = groups.find(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    result = Result()
    responses = []
    left = []
    for identity in request.members:
        code = _leave(group, identity, result)
        if code is ErrorCode.none:
            left.append(identity.member_id or str(identity.group_instance_id))
        responses.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        )
    if left:
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            prepare_rebalance(group, f"members {', '.join(left)} left", config, result, now)
        else:
            maybe_complete_join(group, result, now)
    result.reply(ticket, LeaveGroupResponse(members=responses))
    return result


def _leave(group: ClassicGroup, identity: MemberIdentity, result: Result) -> ErrorCode:
    member_id = identity.member_id
    if not member_id:
        if identity.group_instance_id not in group.static_members:
            return ErrorCode.unknown_member_id
        assert identity.group_instance_id is not None
        member_id = group.static_members[identity.group_instance_id]
    elif member_id in group.pending_join:
        group.remove(member_id)
        result.cancel(session_timer(group.group_id, member_id))
        return ErrorCode.none
    else:
        try:
            group.check_member(member_id, identity.group_instance_id)
        except KafkaError as error:
            return error.code
    member = group.members[member_id]
    answer_parked_requests(group, member, ErrorCode.unknown_member_id, result)
    group.remove(member_id)
    result.cancel(member.session_timer)
    result.events.append(
        f"group {group.group_id} was left by member {member_id}"
        + (f"; the client says: {identity.reason}" if identity.reason else "")
    )
    return ErrorCode.none
