"""AlterShareGroupOffsets: sets the offsets of a share group (KIP-932).

Version 0 only. Share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from klamm.protocol.schema.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: AlterShareGroupOffsetsRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterShareGroupOffsetsResponse:
    """Returns a response with this error.

    Of the share group APIs, Kafka adds a message to UNSUPPORTED_VERSION only here and in DeleteShareGroupOffsets.
    """
    if code == ErrorCode.UNSUPPORTED_VERSION and message is None:
        message = "The version of API is not supported."
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message)
