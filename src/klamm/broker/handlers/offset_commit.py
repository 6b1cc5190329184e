"""OffsetCommit: commits offsets of a group.

Versions 2 to 10: v2 to v4 retention time, v6 leader epochs (KIP-320), v7 static members (KIP-345), v8 flexible,
v9 consumer groups (KIP-848), v10 topic ids instead of names (KIP-848).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from klamm.protocol.schema.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.types import TopicId
from klamm.runtime.answers import Answer, then
from klamm.runtime.error_responses import commit_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.metadata.image import MetadataImage

__all__ = ["PART_ELEMENTS", "error_response", "handle"]

_TOPIC_IDS_FROM = 10


PART_ELEMENTS: Final = 250
"""Maximum number of offsets committed in one step: two to three milliseconds. Each part of a large commit is decided
separately, so a member that is fenced in between has committed some offsets."""


def handle(context: RequestContext, request: OffsetCommitRequest) -> Answer[OffsetCommitResponse]:
    """Commits offsets of partitions that exist; the others get UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID."""
    image = context.broker.metadata.image
    refused: list[OffsetCommitResponseTopic] = []
    accepted = []
    for topic in request.topics:
        refusal = (
            _resolve_id(topic, image) if context.api_version >= _TOPIC_IDS_FROM else _resolve_name(topic, image)
        ) or _split_unknown_partitions(topic, image)
        if refusal is not None:
            refused.append(refusal)
        if topic.partitions:
            accepted.append(topic)
    refused_all = OffsetCommitResponse(topics=refused)
    if not accepted:
        return refused_all
    request.topics = accepted
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    answer = context.broker.groups.offset_commit(request, client)
    return then(answer, partial(_merge, refused_all)) if refused else answer


def error_response(
    request: OffsetCommitRequest, version: int, code: ErrorCode, message: str | None = None
) -> OffsetCommitResponse:
    """Returns a response with this error for every partition."""
    return commit_error(request, code)


def _resolve_id(topic: OffsetCommitRequestTopic, image: MetadataImage) -> OffsetCommitResponseTopic | None:
    found = image.topics_by_id.get(TopicId(topic.topic_id))
    if found is None:
        return _refuse_all(topic, ErrorCode.UNKNOWN_TOPIC_ID)
    topic.name = found.name
    return None


def _resolve_name(topic: OffsetCommitRequestTopic, image: MetadataImage) -> OffsetCommitResponseTopic | None:
    found = image.topics.get(topic.name)
    if found is None:
        return _refuse_all(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    topic.topic_id = found.topic_id
    return None


def _split_unknown_partitions(
    topic: OffsetCommitRequestTopic, image: MetadataImage
) -> OffsetCommitResponseTopic | None:
    """Removes partitions that don't exist from the request, and returns their errors; None if all exist."""
    count = len(image.topics[topic.name].partitions)
    unknown = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
    if not unknown:
        return None
    topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
    return _refuse(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _refuse_all(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    refusal = _refuse(topic, [partition.partition_index for partition in topic.partitions], code)
    topic.partitions = []
    return refusal


def _refuse(topic: OffsetCommitRequestTopic, indexes: list[int], code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes],
    )


def _merge(one: OffsetCommitResponse, other: OffsetCommitResponse) -> OffsetCommitResponse:
    """Merges the other response into the first, with one entry per topic."""
    by_topic = {(topic.name, topic.topic_id): topic for topic in one.topics}
    for topic in other.topics:
        existing = by_topic.get((topic.name, topic.topic_id))
        if existing is None:
            one.topics.append(topic)
        else:
            existing.partitions.extend(topic.partitions)
    return one
