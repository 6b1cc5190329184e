"""AlterPartitionReassignments: partitions are to move to other brokers, or to stay after all (KIP-455).

Versions 0 to 1: 1 whether the number of replicas may change (KIP-860).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.metadata.topic_name import shortened
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from klamm.protocol.schema.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.metadata.image import MetadataImage

__all__ = ["PART_ELEMENTS", "error_response", "handle"]

PART_ELEMENTS: Final = 250
"""So many partitions are answered in a step."""


def handle(context: RequestContext, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    """Lets a partition stay where it is, its one broker; refuses all else, with codes and words as Kafka's
    `ReplicationControlManager`.

    A second replica on this broker alone is not to be had, so there is nothing that could be moved or cancelled.
    """
    image = context.broker.metadata.image
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[_response(image, topic.name, partition) for partition in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def error_response(
    request: AlterPartitionReassignmentsRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterPartitionReassignmentsResponse:
    """The answer that refuses the request."""
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)


def _response(image: MetadataImage, name: str, partition: ReassignablePartition) -> ReassignablePartitionResponse:
    index = partition.partition_index
    try:
        _check(image, name, index, partition.replicas)
    except KafkaError as error:
        return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return ReassignablePartitionResponse(partition_index=index, error_message=None)


def _check(image: MetadataImage, name: str, index: int, replicas: list[int] | None) -> None:
    """Raises KafkaError unless the partition exists and the replicas are those that it has."""
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {shortened(name)}.")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"Unable to find partition {name}:{index}.")
    if replicas is None:
        raise KafkaError(ErrorCode.no_reassignment_in_progress)
    if not replicas:
        reason = "The manual partition assignment includes an empty replica list."
        raise KafkaError(ErrorCode.invalid_replica_assignment, reason)
    seen: set[int] = set()
    for replica in sorted(replicas):
        if replica not in image.brokers:
            reason = f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            raise KafkaError(ErrorCode.invalid_replica_assignment, reason)
        if replica in seen:
            reason = f"The manual partition assignment includes the broker {replica} more than once."
            raise KafkaError(ErrorCode.invalid_replica_assignment, reason)
        seen.add(replica)
