"""The decision on a LeaveGroup request.

Since version 3 one request may name several members, and an administrator may name static ones by their instance id
alone (KIP-345). After Apache Kafka's `GroupMetadataManager.classicGroupLeave`.
"""

from __future__ import annotations

from typing import Final

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.classic.classic_events import needed, removed
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.rebalance import answer_parked_requests, rebalance_soon
from klamm.core.group.classic.timers import session_timer
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import Cause, RebalanceNeeded
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse, MemberResponse
from klamm.protocol.types import Millis

__all__ = ["leave_group"]

_ADMIN_REASON: Final = "member was removed by an admin"
"""How Kafka's admin client begins its reason; before version 5 of the API a request has no reason."""


def leave_group(
    groups: ClassicGroups, config: GroupCoordinatorConfig, request: LeaveGroupRequest, ticket: Ticket, now: Millis
) -> Result:
    """Removes the members that the request names, each with its own error code.

    Raises UNKNOWN_MEMBER_ID if there is no group.
    """
    group = groups.find(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    result = Result()
    responses = []
    causes: list[RebalanceNeeded] = []
    has_anybody_left = False
    for identity in request.members:
        code = _leave(group, identity, result, causes, now)
        has_anybody_left |= code is ErrorCode.NONE
        responses.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        )
    if has_anybody_left and group.state is not GroupState.EMPTY:
        rebalance_soon(group, causes, config, result, now)
    result.reply(ticket, LeaveGroupResponse(members=responses))
    return result


def _leave(
    group: ClassicGroup, identity: MemberIdentity, result: Result, causes: list[RebalanceNeeded], now: Millis
) -> ErrorCode:
    member_id = identity.member_id
    if not member_id:
        if identity.group_instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        assert identity.group_instance_id is not None
        member_id = group.static_members[identity.group_instance_id]
    elif member_id in group.pending_join:
        group.remove(member_id)
        result.cancel(session_timer(group.group_id, member_id))
        detail = f"{member_id}, which had not joined yet, left"
        causes.append(needed(group, Cause.MEMBER_LEFT, member_id, detail, now))
        return ErrorCode.NONE
    else:
        try:
            group.check_member(member_id, identity.group_instance_id)
        except KafkaError as error:
            return error.code
    member = group.members[member_id]
    answer_parked_requests(group, member, ErrorCode.UNKNOWN_MEMBER_ID, result)
    group.remove(member_id)
    result.cancel(member.session_timer)
    is_admin = not identity.member_id or _ADMIN_REASON in (identity.reason or "")
    cause = Cause.ADMIN if is_admin else Cause.MEMBER_LEFT
    detail = "was removed by an administrator" if is_admin else "left"
    if identity.reason:
        detail = f"{detail}; the client says: {identity.reason}"
    result.events.append(removed(group, member_id, cause, detail, now))
    causes.append(needed(group, cause, member_id, f"member {member_id} {detail}", now))
    return ErrorCode.NONE
