"""JoinGroup: joins a member to the group's next generation.

Versions 0 to 9: v1 rebalance timeout, v4 a new member first gets a member id (KIP-394), v5 static members (KIP-345),
v6 flexible, v7 protocol type and a nullable protocol name (KIP-559), v8 reason (KIP-800), v9 skip assignment (KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.runtime.answers import Answer, then

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_NULL_PROTOCOL_NAME_FROM = 7


def handle(context: RequestContext, request: JoinGroupRequest) -> Answer[JoinGroupResponse]:
    """Joins the member. The response comes when the rebalance has gathered the group's members."""
    version = context.api_version
    if version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    client = ClientContext(context.client_id or "", context.client_host, version)
    return then(context.broker.groups.join_group(request, client), lambda response: _fit(response, version))


def error_response(
    request: JoinGroupRequest, version: int, code: ErrorCode, message: str | None = None
) -> JoinGroupResponse:
    """Returns the response to a request that failed before it reached the coordinator."""
    return _fit(JoinGroupResponse(error_code=coordinator_error(code)), version)


def _fit(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Sets a missing protocol name to null if the version allows null, otherwise to an empty string."""
    response.protocol_name = (
        (response.protocol_name or None) if version >= _NULL_PROTOCOL_NAME_FROM else (response.protocol_name or "")
    )
    return response
