"""WriteShareGroupState: updates the share coordinator's state of partitions (KIP-932).

Versions 0 to 1: v1 the number of completed deliveries (KIP-1226). Sent between brokers only. Share groups are not
served yet.
"""

from __future__ import annotations

from klamm.broker.handlers.shared.absent_features import refuse
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.write_share_group_state_request import WriteShareGroupStateRequest
from klamm.protocol.schema.write_share_group_state_response import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

__all__ = ["error_response", "handle"]

handle = refuse


def error_response(
    request: WriteShareGroupStateRequest, version: int, code: ErrorCode, message: str | None = None
) -> WriteShareGroupStateResponse:
    """Returns a response with this error for every partition."""
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(partition=each.partition, error_code=code, error_message=message)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
