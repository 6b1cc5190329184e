"""Heartbeat: keeps a member's session alive, and tells the member whether to rejoin.

Versions 0 to 4: v3 static members (KIP-345), v4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.runtime.answers import Answer
from klamm.runtime.error_responses import heartbeat_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: HeartbeatRequest) -> Answer[HeartbeatResponse]:
    """Restarts the member's session timeout."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.groups.heartbeat(request, client, context.request_fingerprint)


def error_response(
    request: HeartbeatRequest, version: int, code: ErrorCode, message: str | None = None
) -> HeartbeatResponse:
    """Returns the response to a request that failed before it reached the coordinator."""
    return heartbeat_error(request, code)
