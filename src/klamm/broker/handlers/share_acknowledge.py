"""ShareAcknowledge: acknowledges records that a member of a share group has processed (KIP-932).

Versions 1 to 2: v2 renewal (KIP-1222). Share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.share_acknowledge_request import ShareAcknowledgeRequest
from klamm.protocol.schema.share_acknowledge_response import ShareAcknowledgeResponse

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: ShareAcknowledgeRequest, version: int, code: ErrorCode, message: str | None = None
) -> ShareAcknowledgeResponse:
    """Returns a response with this error."""
    return ShareAcknowledgeResponse(error_code=code, error_message=message)
