"""InitializeShareGroupState: creates the share coordinator's state of partitions (KIP-932).

Version 0 only. Sent between brokers only. Share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.initialize_share_group_state_request import InitializeShareGroupStateRequest
from klamm.protocol.schema.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: InitializeShareGroupStateRequest, version: int, code: ErrorCode, message: str | None = None
) -> InitializeShareGroupStateResponse:
    """Returns a response with this error for every partition."""
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(partition=each.partition, error_code=code, error_message=message)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
