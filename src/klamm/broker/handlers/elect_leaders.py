"""ElectLeaders: elects the preferred leader of partitions, or any replica that is left (KIP-183, KIP-460).

Versions 0 to 2: v1 unclean elections, v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.metadata.topic_name import shortened
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest
from klamm.protocol.schema.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.time_slices import Work
    from klamm.metadata.image import MetadataImage

__all__ = ["error_response", "handle"]

_ELECTION_TYPES: Final = (0, 1)
"""Kafka's codes for preferred and unclean elections."""
_NOT_AVAILABLE: Final = (
    (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."),
)
"""The answers, by election type, for a partition whose only replica is on a broker that is away."""


def handle(context: RequestContext, request: ElectLeadersRequest) -> Work[ElectLeadersResponse]:
    """Answers ELECTION_NOT_NEEDED for each partition that is led, because its only replica leads it.

    If the broker of that replica is away, no leader is available.

    A request for all partitions returns each topic, with the partitions that have no leader.
    """
    image = context.broker.metadata.image
    if request.election_type not in _ELECTION_TYPES:
        reason = f"Unknown election type {request.election_type}"
        return error_response(request, context.api_version, ErrorCode.INVALID_REQUEST, reason)
    response = ElectLeadersResponse()
    if request.topic_partitions is None:
        for name, topic in image.topics.items():
            failed = [
                _result(image, name, partition.index, request.election_type)
                for partition in topic.partitions
                if partition.leader not in image.brokers
            ]
            response.replica_election_results.append(ReplicaElectionResult(topic=name, partition_result=failed))
            yield None
        return response
    for wanted in request.topic_partitions:
        result = ReplicaElectionResult(topic=wanted.topic)
        for index in wanted.partitions:
            result.partition_result.append(_result(image, wanted.topic, index, request.election_type))
            yield None
        response.replica_election_results.append(result)
        yield None
    return response


def error_response(
    request: ElectLeadersRequest, version: int, code: ErrorCode, message: str | None = None
) -> ElectLeadersResponse:
    """Returns a response with this error for the request and each partition that it names."""
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in wanted.partitions
                ],
            )
            for wanted in request.topic_partitions or ()
        ],
    )


def _result(image: MetadataImage, name: str, index: int, election_type: int) -> PartitionResult:
    topic = image.topics.get(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        message = f"No such topic as {shortened(name)}"
    elif not 0 <= index < len(topic.partitions):
        message = f"No such partition as {name}-{index}"
    elif topic.partitions[index].leader not in image.brokers:
        code, message = _NOT_AVAILABLE[election_type]
    else:
        code, message = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    return PartitionResult(partition_id=index, error_code=code, error_message=message)
