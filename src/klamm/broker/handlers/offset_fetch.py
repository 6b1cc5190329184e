"""OffsetFetch: returns the committed offsets of groups.

Versions 1 to 10: v2 all topics at once and a top-level error, v5 leader epochs (KIP-320), v6 flexible, v7 stable
offsets only (KIP-447), v8 several groups (KIP-709), v9 consumer groups (KIP-848), v10 topic ids instead of names
(KIP-848).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from klamm.protocol.types import TopicId
from klamm.runtime.answers import Answer, gather, then
from klamm.runtime.error_responses import fetch_group_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.metadata.image import MetadataImage

__all__ = ["PART_ELEMENTS", "error_response", "handle"]

_SEVERAL_GROUPS_FROM = 8
_TOPIC_IDS_FROM = 10

PART_ELEMENTS: Final = 250
"""Maximum number of offsets looked up in one step."""


def handle(context: RequestContext, request: OffsetFetchRequest) -> Answer[OffsetFetchResponse]:
    """Returns the offsets of all requested groups. Each group has its own error."""
    version = context.api_version
    client = ClientContext(context.client_id or "", context.client_host, version)
    answers = [_fetch_group(context, group, request.require_stable, client) for group in _groups_of(request, version)]
    return then(gather(answers), lambda groups: _response(groups, version))


def error_response(
    request: OffsetFetchRequest, version: int, code: ErrorCode, message: str | None = None
) -> OffsetFetchResponse:
    """Returns a response with this error for every group."""
    return _response([fetch_group_error(group, code, version) for group in _groups_of(request, version)], version)


def _groups_of(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    if version >= _SEVERAL_GROUPS_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _fetch_group(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool, client: ClientContext
) -> Answer[OffsetFetchResponseGroup]:
    groups, image = context.broker.groups, context.broker.metadata.image
    if client.api_version < _TOPIC_IDS_FROM:
        return groups.offset_fetch(group, require_stable, client)
    if group.topics is None:
        answer = groups.offset_fetch(group, require_stable, client)
        return then(answer, lambda response: _with_topic_ids(response, image))
    unknown = []
    known = []
    for topic in group.topics:
        found = image.topics_by_id.get(TopicId(topic.topic_id))
        if found is None:
            unknown.append(_unknown_topic(topic))
        else:
            topic.name = found.name
            known.append(topic)
    group.topics = known
    answer = groups.offset_fetch(group, require_stable, client)
    return then(answer, lambda response: _with_unknown_topics(response, unknown)) if unknown else answer


def _with_topic_ids(response: OffsetFetchResponseGroup, image: MetadataImage) -> OffsetFetchResponseGroup:
    """Sets topic ids, and drops topics without an id, because this version has no names."""
    topics = []
    for topic in response.topics:
        found = image.topics.get(topic.name)
        if found is not None:
            topic.topic_id = found.topic_id
        if topic.topic_id != ZERO_UUID:
            topics.append(topic)
    response.topics = topics
    return response


def _unknown_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for index in topic.partition_indexes
        ],
    )


def _with_unknown_topics(
    response: OffsetFetchResponseGroup, unknown: list[OffsetFetchResponseTopics]
) -> OffsetFetchResponseGroup:
    if not response.error_code:
        response.topics.extend(unknown)
    return response


def _response(groups: Sequence[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= _SEVERAL_GROUPS_FROM:
        return OffsetFetchResponse(groups=list(groups))
    (group,) = groups
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        # Versions below 5 do not have this field.
                        committed_leader_epoch=partition.committed_leader_epoch if version >= 5 else -1,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
