"""SyncGroup: takes the assignments from the leader, and returns each member its own.

Versions 0 to 5: v3 static members (KIP-345), v4 flexible, v5 protocol type and name, which are checked (KIP-559).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.runtime.answers import Answer
from klamm.runtime.error_responses import sync_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_PROTOCOL_REQUIRED_FROM = 5


def handle(context: RequestContext, request: SyncGroupRequest) -> Answer[SyncGroupResponse]:
    """Syncs the member. Followers get their response when the leader's assignments are committed."""
    version = context.api_version
    if version >= _PROTOCOL_REQUIRED_FROM and (request.protocol_type is None or request.protocol_name is None):
        return sync_error(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    client = ClientContext(context.client_id or "", context.client_host, version)
    return context.broker.groups.sync_group(request, client)


def error_response(
    request: SyncGroupRequest, version: int, code: ErrorCode, message: str | None = None
) -> SyncGroupResponse:
    """Returns the response to a request that failed before it reached the coordinator."""
    return sync_error(request, code)
