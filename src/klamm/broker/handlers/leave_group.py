"""LeaveGroup: removes members from a group at once, before their sessions expire.

Versions 0 to 5: v3 several members in one request, by member id or instance id (KIP-345), v4 flexible, v5 reason
(KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse
from klamm.runtime.answers import Answer, then

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["PART_ELEMENTS", "error_response", "handle"]

_MEMBERS_FROM = 3

PART_ELEMENTS: Final = 100
"""Maximum number of members removed in one step. Each part is decided separately, as if members left one by one."""


def handle(context: RequestContext, request: LeaveGroupRequest) -> Answer[LeaveGroupResponse]:
    """Removes the members. Versions below 3 name one member and return its error as the top-level error."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    if context.api_version >= _MEMBERS_FROM:
        return context.broker.groups.leave_group(request, client)
    request.members = [MemberIdentity(member_id=request.member_id)]
    return then(context.broker.groups.leave_group(request, client), _of_one_member)


def error_response(
    request: LeaveGroupRequest, version: int, code: ErrorCode, message: str | None = None
) -> LeaveGroupResponse:
    """Returns the response to a request that failed before it reached the coordinator."""
    return LeaveGroupResponse(error_code=coordinator_error(code))


def _of_one_member(response: LeaveGroupResponse) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code)
