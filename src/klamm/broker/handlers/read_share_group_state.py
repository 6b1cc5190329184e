"""ReadShareGroupState: returns the share coordinator's state of partitions (KIP-932).

Version 0 only. Sent between brokers only. Share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.read_share_group_state_request import ReadShareGroupStateRequest
from klamm.protocol.schema.read_share_group_state_response import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
)

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: ReadShareGroupStateRequest, version: int, code: ErrorCode, message: str | None = None
) -> ReadShareGroupStateResponse:
    """Returns a response with this error for every partition."""
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(partition=each.partition, error_code=code, error_message=message)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
