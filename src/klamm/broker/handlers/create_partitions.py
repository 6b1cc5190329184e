"""CreatePartitions: topics get more partitions; what is in them stays where it is (KIP-195).

Versions 0 to 3: 1 throttling before the answer, 2 flexible, 3 THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from klamm.metadata.service import NewPartitions
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.schema.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Each topic's result by itself. Logs of the new partitions exist when this returns."""
    counts = Counter(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.invalid_request, error_message="Duplicate topic name."
        )
        for name, count in counts.items()
        if count > 1
    ]
    wishes = [_wish(topic) for topic in request.topics if counts[topic.name] == 1]
    outcome = await context.broker.metadata.create_partitions(wishes, validate_only=request.validate_only)
    await context.broker.partitions.settled()
    for name, error in outcome.items():
        code, message = (ErrorCode.none, None) if error is None else (error.code, error.message)
        results.append(CreatePartitionsTopicResult(name=name, error_code=code, error_message=message))
    return CreatePartitionsResponse(results=results)


def error_response(
    request: CreatePartitionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> CreatePartitionsResponse:
    """The answer that refuses every topic."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


def _wish(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments]
    return NewPartitions(topic=topic.name, count=topic.count, assignments=assignments)
