"""InitializeShareGroupState: the share coordinator begins to keep the state of partitions (KIP-932).

There is version 0 only. Brokers ask this of each other; share groups are not served yet.
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
    """The answer that refuses every partition."""
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
