"""AlterPartitionReassignments: moves partitions to other brokers, or cancels such a move (KIP-455).

Versions 0 to 1: v1 whether the number of replicas may change (KIP-860).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.handlers.shared.time_left import require_time_left
from klamm.broker.time_slices import Work, free_later, wait_for
from klamm.metadata.replicas.reassignments import Reassignment
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from klamm.protocol.schema.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Work[AlterPartitionReassignmentsResponse]:
    """Begins or cancels the reassignments. Each partition has its own error.

    Raises REQUEST_TIMED_OUT if the timeout is over.
    """
    if request.topics:
        require_time_left(request.timeout_ms)
        yield from reach_newest_metadata(context)
    wanted: list[Reassignment] = []
    for topic in request.topics:
        for partition in topic.partitions:
            wanted.append(Reassignment(topic.name, partition.partition_index, partition.replicas))
            yield None
        yield None
    outcomes = yield from wait_for(
        context.broker.metadata.replicas.reassign(wanted, allows_other_factor=request.allow_replication_factor_change)
    )
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
    )
    remaining = iter(outcomes)
    for topic in request.topics:
        result = ReassignableTopicResponse(name=topic.name)
        for partition in topic.partitions:
            error = next(remaining)
            code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
            result.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index, error_code=code, error_message=message
                )
            )
            yield None
        response.responses.append(result)
        yield None
    free_later(wanted, outcomes)
    return response


def error_response(
    request: AlterPartitionReassignmentsRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterPartitionReassignmentsResponse:
    """Returns a response with this error for the request and each partition that it names."""
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=code, error_message=message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
