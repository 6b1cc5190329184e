"""ShareFetch: returns records to a member of a share group, which holds them for a limited time (KIP-932).

Versions 1 to 2: v2 acquisition modes and renewal (KIP-1206, KIP-1222). Share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.share_fetch_request import ShareFetchRequest
from klamm.protocol.schema.share_fetch_response import ShareFetchResponse

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: ShareFetchRequest, version: int, code: ErrorCode, message: str | None = None
) -> ShareFetchResponse:
    """Returns a response with this error."""
    return ShareFetchResponse(error_code=code, error_message=message)
