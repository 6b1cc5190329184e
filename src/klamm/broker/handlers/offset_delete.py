"""OffsetDelete: deletes single committed offsets of a group (KIP-496). Version 0 only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_delete_request import OffsetDeleteRequest
from klamm.protocol.schema.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from klamm.runtime.answers import Answer, then
from klamm.runtime.error_responses import offset_delete_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["PART_ELEMENTS", "error_response", "handle"]

PART_ELEMENTS: Final = 250
"""Maximum number of offsets deleted in one step."""


def handle(context: RequestContext, request: OffsetDeleteRequest) -> Answer[OffsetDeleteResponse]:
    """Deletes the offsets of partitions that exist; the others get UNKNOWN_TOPIC_OR_PARTITION."""
    image = context.broker.metadata.image
    refused: list[OffsetDeleteResponseTopic] = []
    accepted = []
    for topic in request.topics:
        found = image.topics.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        unknown = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
        if unknown:
            refused.append(_unknown(topic.name, unknown))
        topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if topic.partitions:
            accepted.append(topic)
    request.topics = accepted
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return then(context.broker.groups.offset_delete(request, client), lambda response: _merge(refused, response))


def error_response(
    request: OffsetDeleteRequest, version: int, code: ErrorCode, message: str | None = None
) -> OffsetDeleteResponse:
    """Returns the response to a request that failed before it reached the coordinator."""
    return offset_delete_error(request, code)


def _unknown(topic: str, indexes: list[int]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for index in indexes
        ],
    )


def _merge(refused: list[OffsetDeleteResponseTopic], response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """Returns a top-level error alone; otherwise merges the results, with one entry per topic."""
    if response.error_code or not refused:
        return response
    by_name = {topic.name: topic for topic in refused}
    for topic in response.topics:
        existing = by_name.get(topic.name)
        if existing is None:
            refused.append(topic)
        else:
            existing.partitions.extend(topic.partitions)
    return OffsetDeleteResponse(topics=refused)
