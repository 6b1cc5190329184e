"""ShareGroupDescribe: returns members and assignments of share groups (KIP-932).

Version 1 only. Share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.share_group_describe_request import ShareGroupDescribeRequest
from klamm.protocol.schema.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: ShareGroupDescribeRequest, version: int, code: ErrorCode, message: str | None = None
) -> ShareGroupDescribeResponse:
    """Returns a response with this error for every group."""
    return ShareGroupDescribeResponse(
        groups=[DescribedGroup(group_id=name, error_code=code, error_message=message) for name in request.group_ids]
    )
