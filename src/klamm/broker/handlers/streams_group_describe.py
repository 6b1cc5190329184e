"""StreamsGroupDescribe: returns topology, members and assignments of Streams groups (KIP-1071).

Version 0 only. Streams groups are not served.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.streams_group_describe_request import StreamsGroupDescribeRequest
from klamm.protocol.schema.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: StreamsGroupDescribeRequest, version: int, code: ErrorCode, message: str | None = None
) -> StreamsGroupDescribeResponse:
    """Returns a response with this error for every group."""
    return StreamsGroupDescribeResponse(
        groups=[DescribedGroup(group_id=name, error_code=code, error_message=message) for name in request.group_ids]
    )
