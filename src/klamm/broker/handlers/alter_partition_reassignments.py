"""AlterPartitionReassignments: moves partitions to other brokers, or cancels such a move (KIP-455).

Versions 0 to 1: v1 whether the number of replicas may change (KIP-860).
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
"""Maximum number of partitions handled in one step."""


def handle(context: RequestContext, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    """Accepts a reassignment of a partition to the broker that has it, and refuses all others, as far as it can with
    the codes and messages of Kafka's `ReplicationControlManager`.

    A partition has one replica and does not move to another broker, so there is nothing to cancel.
    """
    image = context.broker.metadata.image
    allows_other_factor = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _response(image, topic.name, partition, allows_other_factor) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def error_response(
    request: AlterPartitionReassignmentsRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterPartitionReassignmentsResponse:
    """Returns a response with this error."""
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)


def _response(
    image: MetadataImage, name: str, partition: ReassignablePartition, allows_other_factor: bool
) -> ReassignablePartitionResponse:
    index = partition.partition_index
    try:
        _check(image, name, index, partition.replicas)
        if partition.replicas is not None:
            _refuse_to_move(image, name, index, partition.replicas, allows_other_factor=allows_other_factor)
    except KafkaError as error:
        return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return ReassignablePartitionResponse(partition_index=index, error_message=None)


def _check(image: MetadataImage, name: str, index: int, replicas: list[int] | None) -> None:
    """Raises KafkaError unless the partition exists and `replicas` are registered brokers."""
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {shortened(name)}.")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not replicas:
        reason = "The manual partition assignment includes an empty replica list."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    seen: set[int] = set()
    for replica in sorted(replicas):
        if replica not in image.registrations:
            reason = f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        if replica in seen:
            reason = f"The manual partition assignment includes the broker {replica} more than once."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        seen.add(replica)


def _refuse_to_move(
    image: MetadataImage, name: str, index: int, replicas: list[int], *, allows_other_factor: bool
) -> None:
    """Raises KafkaError if `replicas` are not those that the partition has."""
    current = image.topics[name].partitions[index].replicas
    if tuple(replicas) == current:
        return
    if len(replicas) != len(current):
        reason = f"The replication factor is changed from {len(current)} to {len(replicas)}"
        if allows_other_factor:
            reason += ", but this version of klamm keeps one replica of a partition."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    raise KafkaError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"{name}-{index} stays on broker {current[0]}: this version of klamm does not move partitions while it runs.",
    )
