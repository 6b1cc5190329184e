"""ListPartitionReassignments: returns the partitions that are moving to other brokers (KIP-455).

Version 0 only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from klamm.protocol.schema.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.time_slices import Work
    from klamm.metadata.image import PartitionImage, TopicImage

__all__ = ["error_response", "handle"]


def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Work[ListPartitionReassignmentsResponse]:
    """Returns the reassignments in progress, of the named partitions or of all."""
    if request.topics is None or request.topics:
        yield from reach_newest_metadata(context)
    topics = context.broker.metadata.image.topics
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        for topic in topics.values():
            _add(response, topic, [each for each in topic.partitions if each.adding or each.removing])
            yield None
        return response
    for wanted in request.topics:
        named = topics.get(wanted.name)
        if named is not None:
            moving = []
            for index in wanted.partition_indexes:  # in this order, and as often as it is named
                if 0 <= index < len(named.partitions):
                    partition = named.partitions[index]
                    if partition.adding or partition.removing:
                        moving.append(partition)
                yield None
            _add(response, named, moving)
        yield None
    return response


def error_response(
    request: ListPartitionReassignmentsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListPartitionReassignmentsResponse:
    """Returns a response with this error."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)


def _add(response: ListPartitionReassignmentsResponse, topic: TopicImage, moving: list[PartitionImage]) -> None:
    if moving:
        partitions = [
            OngoingPartitionReassignment(
                partition_index=each.index,
                replicas=list(each.replicas),
                adding_replicas=list(each.adding),
                removing_replicas=list(each.removing),
            )
            for each in moving
        ]
        response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=partitions))
