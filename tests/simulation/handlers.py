"""The request handlers between a broker's connections and its coordinator.

The simulator does not run the broker's own handlers. Those handlers do little to group requests, and this module does
the same: it refuses topics that don't exist, and matches topic ids with names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.simulation.heartbeats import ask_heartbeat

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.metadata.image import MetadataImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from klamm.protocol.schema.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.schema.offset_delete_request import OffsetDeleteRequest
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.types import TopicId
from klamm.runtime.answers import Answer, then
from klamm.runtime.group_coordinator import GroupCoordinator

__all__ = ["ask"]

_TOPIC_IDS_FROM: Final = 10

_Ask = Callable[[GroupCoordinator, MetadataImage, Any, ClientContext], Answer[Any]]


def ask(groups: GroupCoordinator, image: MetadataImage, request: Message, client: ClientContext) -> Answer[Message]:
    """Lets the coordinator answer a request; does not change the request."""
    return _HANDLERS[type(request)](groups, image, request, client)


def _commit(
    groups: GroupCoordinator, image: MetadataImage, request: OffsetCommitRequest, client: ClientContext
) -> Answer[OffsetCommitResponse]:
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    has_ids = client.api_version >= _TOPIC_IDS_FROM
    for topic in request.topics:
        found = image.topics_by_id.get(TopicId(topic.topic_id)) if has_ids else image.topics.get(topic.name)
        code = ErrorCode.UNKNOWN_TOPIC_ID if has_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count = 0 if found is None else len(found.partitions)
        known = [each for each in topic.partitions if each.partition_index < count]
        unknown = [each.partition_index for each in topic.partitions if each.partition_index >= count]
        if unknown:
            refused.append(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=index,
                            error_code=code if found is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                        for index in unknown
                    ],
                )
            )
        if found is not None and known:
            accepted.append(OffsetCommitRequestTopic(name=found.name, topic_id=found.topic_id, partitions=known))
    if not accepted:
        return OffsetCommitResponse(topics=refused)
    resolved = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=accepted,
    )
    return then(
        groups.offset_commit(resolved, client),
        lambda response: OffsetCommitResponse(topics=[*refused, *response.topics]),
    )


def _fetch(
    groups: GroupCoordinator, image: MetadataImage, request: OffsetFetchRequest, client: ClientContext
) -> Answer[OffsetFetchResponse]:
    (asked,) = request.groups
    known: list[OffsetFetchRequestTopics] | None = None
    unknown: list[OffsetFetchResponseTopics] = []
    if asked.topics is not None and client.api_version < _TOPIC_IDS_FROM:
        known = list(asked.topics)
    elif asked.topics is not None:
        known = []
        for topic in asked.topics:
            found = image.topics_by_id.get(TopicId(topic.topic_id))
            if found is not None:
                indexes = list(topic.partition_indexes)
                known.append(
                    OffsetFetchRequestTopics(name=found.name, topic_id=found.topic_id, partition_indexes=indexes)
                )
            else:
                unknown.append(_unknown_topic(topic))
    group = OffsetFetchRequestGroup(
        group_id=asked.group_id, member_id=asked.member_id, member_epoch=asked.member_epoch, topics=known
    )

    def respond(response: OffsetFetchResponseGroup) -> OffsetFetchResponse:
        if not response.error_code:
            for topic in response.topics:
                if topic.name in image.topics:
                    topic.topic_id = image.topics[topic.name].topic_id
            response.topics.extend(unknown)
        return OffsetFetchResponse(groups=[response])

    return then(groups.offset_fetch(group, request.require_stable, client), respond)


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


_HANDLERS: Final[Mapping[type[Message], _Ask]] = {
    ConsumerGroupHeartbeatRequest: lambda groups, image, request, client: ask_heartbeat(groups, request, client),
    ConsumerGroupDescribeRequest: lambda groups, image, request, client: groups.consumer_group_describe(
        request, client
    ),
    JoinGroupRequest: lambda groups, image, request, client: groups.join_group(request, client),
    SyncGroupRequest: lambda groups, image, request, client: groups.sync_group(request, client),
    HeartbeatRequest: lambda groups, image, request, client: ask_heartbeat(groups, request, client),
    LeaveGroupRequest: lambda groups, image, request, client: groups.leave_group(request, client),
    OffsetCommitRequest: _commit,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: lambda groups, image, request, client: groups.offset_delete(request, client),
    ListGroupsRequest: lambda groups, image, request, client: groups.list_groups(request, client),
    DescribeGroupsRequest: lambda groups, image, request, client: groups.describe_groups(request, client),
    DeleteGroupsRequest: lambda groups, image, request, client: groups.delete_groups(request, client),
}
