"""CreatePartitions: adds partitions to topics, and leaves existing records where they are (KIP-195).

Versions 0 to 3: v1 response before throttling, v2 flexible, v3 THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.handlers.shared.time_left import require_time_left
from klamm.broker.time_slices import Work, free_later, wait_for
from klamm.metadata.service import NewPartitions
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.schema.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: CreatePartitionsRequest) -> Work[CreatePartitionsResponse]:
    """Creates the partitions, with one result per topic, and returns when their logs exist.

    Raises REQUEST_TIMED_OUT if the timeout is over.
    """
    counts: Counter[str] = Counter()
    for topic in request.topics:
        counts[topic.name] += 1
        yield None
    response = CreatePartitionsResponse()
    for name, count in counts.items():
        if count > 1:
            response.results.append(
                CreatePartitionsTopicResult(
                    name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
                )
            )
        yield None
    wanted_changes: list[NewPartitions] = []
    for topic in request.topics:
        if counts[topic.name] == 1:
            wanted_changes.append((yield from _new_partitions(topic)))
        yield None
    if wanted_changes:
        require_time_left(request.timeout_ms)
        yield from reach_newest_metadata(context)
    outcome = yield from wait_for(
        context.broker.metadata.create_partitions(wanted_changes, validate_only=request.validate_only)
    )
    yield from wait_for(context.broker.partitions.settled())
    for name, error in outcome.items():
        code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
        response.results.append(CreatePartitionsTopicResult(name=name, error_code=code, error_message=message))
        yield None
    free_later(counts, wanted_changes, outcome)
    return response


def error_response(
    request: CreatePartitionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> CreatePartitionsResponse:
    """Returns a response with this error for every topic."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


def _new_partitions(topic: CreatePartitionsTopic) -> Work[NewPartitions]:
    assignments: list[list[int]] | None = None
    if topic.assignments is not None:
        assignments = []
        for assignment in topic.assignments:
            assignments.append(assignment.broker_ids)
            yield None
    return NewPartitions(topic=topic.name, count=topic.count, assignments=assignments)
