"""DeleteTopics: deletes topics, by name or by id, with all their records.

Versions 1 to 6: v2 response before throttling, v3 TOPIC_DELETION_DISABLED, v4 flexible, v5 error messages, v6 topic
ids.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, TypeVar

from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.handlers.shared.time_left import require_time_left
from klamm.broker.time_slices import Work, wait_for
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest
from klamm.protocol.schema.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from klamm.protocol.types import ZERO_TOPIC_ID, TopicId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

T = TypeVar("T", bound=Hashable)


def handle(context: RequestContext, request: DeleteTopicsRequest) -> Work[DeleteTopicsResponse]:
    """Deletes the topics, with one result per topic. Checks and messages are those of `ControllerApis.deleteTopics`.

    Raises TOPIC_DELETION_DISABLED (before version 3 INVALID_REQUEST) if `delete.topic.enable` is false,
    REQUEST_TIMED_OUT if the timeout is over.
    """
    if not context.broker.config.delete_topic_enable:
        if context.api_version < 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    responses: list[DeletableTopicResult] = []
    names, ids, repeated_ids = yield from _wanted(request, responses)
    if names or ids:
        require_time_left(request.timeout_ms)
        yield from reach_newest_metadata(context)
    image = context.broker.metadata.image
    doomed: dict[TopicId, str] = {}
    for topic_id in ids:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            responses.append(
                _result(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
            )
        else:
            doomed[topic_id] = topic.name
        yield None
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            reason = "This server does not host this topic-partition."
            responses.append(_result(name, ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason))
        elif topic.topic_id in doomed or topic.topic_id in repeated_ids:
            doomed.pop(topic.topic_id, None)
            reason = "The provided topic name maps to an ID that was already supplied."
            responses.append(_refuse(name, topic.topic_id, reason))
        else:
            doomed[topic.topic_id] = name
        yield None
    results = yield from wait_for(context.broker.metadata.delete_topics(doomed))
    yield from wait_for(context.broker.partitions.settled())
    for topic_id, error in results.items():
        code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
        responses.append(_result(doomed[topic_id], topic_id, code, message))
        yield None
    return DeleteTopicsResponse(responses=responses)


def error_response(
    request: DeleteTopicsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DeleteTopicsResponse:
    """Returns a response with this error for every topic."""
    refused = [(topic.name, topic.topic_id) for topic in request.topics]
    refused += [(name, ZERO_TOPIC_ID) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(name=name, topic_id=topic_id, error_code=code) for name, topic_id in refused]
    )


def _wanted(
    request: DeleteTopicsRequest, responses: list[DeletableTopicResult]
) -> Work[tuple[list[str], list[TopicId], frozenset[TopicId]]]:
    """Returns names and ids that occur once, and ids that occur more often. Appends errors for invalid entries."""
    names: list[str] = list(request.topic_names)
    ids: list[TopicId] = []
    for topic in request.topics:
        if topic.name is not None and topic.topic_id != ZERO_TOPIC_ID:
            reason = "You may not specify both topic name and topic id."
            responses.append(_refuse(topic.name, TopicId(topic.topic_id), reason))
        elif topic.name is not None:
            names.append(topic.name)
        elif topic.topic_id != ZERO_TOPIC_ID:
            ids.append(TopicId(topic.topic_id))
        else:
            reason = "Neither topic name nor id were specified."
            responses.append(_refuse(None, ZERO_TOPIC_ID, reason))
        yield None
    single_names, repeated_names = yield from _split_repeated(names)
    single_ids, repeated_ids = yield from _split_repeated(ids)
    for name in repeated_names:
        responses.append(_refuse(name, ZERO_TOPIC_ID, "Duplicate topic name."))
        yield None
    for topic_id in repeated_ids:
        responses.append(_refuse(None, topic_id, "Duplicate topic id."))
        yield None
    return single_names, single_ids, frozenset(repeated_ids)


def _split_repeated(items: Iterable[T]) -> Work[tuple[list[T], list[T]]]:
    """Returns the items that occur once, and those that occur more often, each in order and without duplicates."""
    counts: dict[T, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
        yield None
    once: list[T] = []
    repeated: list[T] = []
    for item, count in counts.items():
        (once if count == 1 else repeated).append(item)
        yield None
    return once, repeated


def _result(name: str | None, topic_id: TopicId, code: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


def _refuse(name: str | None, topic_id: TopicId, reason: str) -> DeletableTopicResult:
    return _result(name, topic_id, ErrorCode.INVALID_REQUEST, reason)
