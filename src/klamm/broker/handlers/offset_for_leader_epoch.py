"""OffsetForLeaderEpoch: returns the end offset of a leader epoch, so that clients detect truncation (KIP-101, KIP-320).

Versions 2 to 4: v2 current leader epoch, v3 replica id, v4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from klamm.protocol.schema.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from klamm.protocol.types import LeaderEpoch

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["PART_ELEMENTS", "error_response", "handle"]

PART_ELEMENTS: Final = 250
"""Maximum number of partitions looked up in one step."""


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Returns for each partition the largest epoch that is not above the requested one, and its end offset."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_look_up(context, topic.topic, partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def error_response(
    request: OffsetForLeaderEpochRequest, version: int, code: ErrorCode, message: str | None = None
) -> OffsetForLeaderEpochResponse:
    """Returns a response with this error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=partition.partition, error_code=code) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _look_up(context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = context.broker.partitions.get(topic, wanted.partition, wanted.current_leader_epoch)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if partition.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, partition.log.offline_reason)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    leader_epoch, end_offset = partition.log.end_offset_for_epoch(LeaderEpoch(wanted.leader_epoch))
    return EpochEndOffset(partition=wanted.partition, leader_epoch=leader_epoch, end_offset=end_offset)
