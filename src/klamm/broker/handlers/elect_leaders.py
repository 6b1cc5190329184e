"""ElectLeaders: elects the preferred leader of partitions, or any replica that is left (KIP-183, KIP-460).

Versions 0 to 2: v1 unclean elections, v2 flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.handlers.shared.time_left import require_time_left
from klamm.broker.time_slices import Work, free_later, wait_for
from klamm.metadata.replicas.partition_change import Election
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest
from klamm.protocol.schema.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from klamm.protocol.types import PartitionIndex, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_ELECTIONS: Final = (Election.PREFERRED, Election.UNCLEAN)
"""By Kafka's codes for preferred and unclean elections."""


def handle(context: RequestContext, request: ElectLeadersRequest) -> Work[ElectLeadersResponse]:
    """Holds the elections. Each partition has its own error.

    A request for all partitions returns each topic, with the partitions that needed an election. Raises
    REQUEST_TIMED_OUT if the timeout is over.
    """
    metadata = context.broker.metadata
    if request.topic_partitions is not None and not request.topic_partitions:
        return ElectLeadersResponse()
    require_time_left(request.timeout_ms)
    if not 0 <= request.election_type < len(_ELECTIONS):
        reason = f"Unknown election type {request.election_type}"
        return error_response(request, context.api_version, ErrorCode.INVALID_REQUEST, reason)
    yield from reach_newest_metadata(context)
    is_for_all = request.topic_partitions is None
    names: list[tuple[str, Sequence[int]]] = []
    if request.topic_partitions is None:
        for name, topic in metadata.image.topics.items():
            names.append((name, range(len(topic.partitions))))
            yield None
    else:
        for wanted in request.topic_partitions:
            names.append((wanted.topic, wanted.partitions))
            yield None
    partitions: list[TopicPartition] = []
    for name, indexes in names:
        for index in indexes:
            partitions.append(TopicPartition(name, PartitionIndex(index)))
            yield None
        yield None
    outcomes = yield from wait_for(metadata.replicas.elect(partitions, _ELECTIONS[request.election_type]))
    response = ElectLeadersResponse()
    remaining = iter(outcomes)
    for name, indexes in names:
        result = ReplicaElectionResult(topic=name)
        for index in indexes:
            code, message = next(remaining)
            if not is_for_all or code is not ErrorCode.ELECTION_NOT_NEEDED:
                result.partition_result.append(
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                )
            yield None
        response.replica_election_results.append(result)
        yield None
    free_later(names, partitions, outcomes)
    return response


def error_response(
    request: ElectLeadersRequest, version: int, code: ErrorCode, message: str | None = None
) -> ElectLeadersResponse:
    """Returns a response with this error for the request, which version 0 can't tell, and each partition that it
    names."""
    return ElectLeadersResponse(
        error_code=code if version >= 1 else ErrorCode.NONE,
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
