"""DescribeProducers: returns the producers of a partition and their open transactions (KIP-664).

Version 0 only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.partitions.local_replica import local_replica
from klamm.broker.time_slices import Work
from klamm.metadata.topic_name import shortened, why_invalid
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_producers_request import DescribeProducersRequest
from klamm.protocol.schema.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_UNKNOWN_TOPIC: Final = "This server does not host this topic-partition."


def handle(context: RequestContext, request: DescribeProducersRequest) -> Work[DescribeProducersResponse]:
    """Returns the producers that each partition's log remembers, with their epochs and sequences."""
    response = DescribeProducersResponse()
    for topic in request.topics:
        described = TopicResponse(name=topic.name)
        response.topics.append(described)
        for index in topic.partition_indexes:
            described.partitions.append((yield from _describe(context, topic.name, index)))
        yield None
    return response


def error_response(
    request: DescribeProducersRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeProducersResponse:
    """Returns a response with this error for every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=code, error_message=message)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(context: RequestContext, topic: str, index: int) -> Work[PartitionResponse]:
    yield None
    reason = why_invalid(shortened(topic))
    if reason is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return PartitionResponse(partition_index=index, error_code=code, error_message=reason)
    if topic not in context.broker.metadata.image.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionResponse(partition_index=index, error_code=code, error_message=_UNKNOWN_TOPIC)
    try:
        # Followers answer too, as in `ReplicaManager.activeProducerState` of Kafka.
        log = local_replica(context.broker.partitions, topic, index).log
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code)
    if log.is_offline:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    described = PartitionResponse(partition_index=index)
    for producer_id, entry in list(log.producers.active()):
        described.active_producers.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_transaction_first_offset,
            )
        )
        yield None
    return described
