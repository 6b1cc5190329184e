"""ShareGroupHeartbeat: joins a share group, keeps the session alive, and leaves (KIP-932).

Version 1 only. Share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from klamm.protocol.schema.share_group_heartbeat_response import ShareGroupHeartbeatResponse

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: ShareGroupHeartbeatRequest, version: int, code: ErrorCode, message: str | None = None
) -> ShareGroupHeartbeatResponse:
    """Returns a response with this error."""
    return ShareGroupHeartbeatResponse(error_code=code, error_message=message)
