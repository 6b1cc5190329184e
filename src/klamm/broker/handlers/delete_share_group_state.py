"""DeleteShareGroupState: the share coordinator forgets the state of partitions (KIP-932).

There is version 0 only. Brokers ask this of each other; share groups are not served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_share_group_state_request import DeleteShareGroupStateRequest
from klamm.protocol.schema.delete_share_group_state_response import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: DeleteShareGroupStateRequest, version: int, code: ErrorCode, message: str | None = None
) -> DeleteShareGroupStateResponse:
    """The answer that refuses every partition."""
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(partition=each.partition, error_code=code, error_message=message)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
