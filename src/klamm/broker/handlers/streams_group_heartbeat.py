"""StreamsGroupHeartbeat: joins a Streams group, keeps the session alive, and leaves (KIP-1071).

Version 0 only. Streams groups are not served.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from klamm.protocol.schema.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: StreamsGroupHeartbeatRequest, version: int, code: ErrorCode, message: str | None = None
) -> StreamsGroupHeartbeatResponse:
    """Returns a response with this error."""
    return StreamsGroupHeartbeatResponse(error_code=code, error_message=message)
