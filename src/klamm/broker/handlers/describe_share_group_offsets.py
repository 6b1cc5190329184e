"""DescribeShareGroupOffsets: returns the offsets of share groups (KIP-932).

Versions 0 to 1: v1 the lag (KIP-1226). Share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from klamm.protocol.schema.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: DescribeShareGroupOffsetsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeShareGroupOffsetsResponse:
    """Returns a response with this error for every group."""
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=code, error_message=message)
            for group in request.groups
        ]
    )
