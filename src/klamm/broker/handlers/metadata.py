"""Metadata: returns brokers, topics, and the leaders of partitions.

Versions 0 to 13: v1 controller, rack and null for all topics, v2 cluster id, v3 throttling, v4 the client may forbid
topic creation, v5 offline replicas, v6 response before throttling, v7 leader epochs, v8 authorized operations,
v9 flexible, v10 topic ids, v11 no cluster operations any more, v12 requests by topic id, v13 a top-level error.

When a request names a topic that Kafka is about to create, Kafka returns UNKNOWN_TOPIC_OR_PARTITION and creates the
topic in the meantime. Every new topic costs its first client a back-off. klamm creates the topic first and then
describes it in the response, as a request sent a moment later would see it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from klamm.broker.handlers.shared.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from klamm.broker.handlers.shared.nodes import controller_among, nodes_for, reachable_brokers
from klamm.broker.time_slices import Work, wait_for
from klamm.metadata.image import NO_BROKER, PartitionImage, TopicImage
from klamm.metadata.service import NewTopic
from klamm.metadata.topic_name import is_internal, why_invalid
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, TopicId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_logger = logging.getLogger(__name__)

T = TypeVar("T")
Described: TypeAlias = "tuple[MetadataResponseTopic, TopicImage | None]"
"""The response entry of a topic, still without partitions, and the topic's image if it exists."""

_KNOWS_LISTENER_NOT_FOUND_FROM: Final = 6
_NAMES_AT_ONCE: Final = 100
"""Maximum number of names looked up in one step."""
_DESCRIBED_AT_ONCE: Final = 100
"""Maximum number of topics and partitions described in one step."""


def handle(context: RequestContext, request: MetadataRequest) -> Work[MetadataResponse]:
    """Returns the metadata. Creates missing topics first if request and broker allow it.

    Raises INVALID_REQUEST for topic ids, or a missing name, before version 12.
    """
    image = context.broker.metadata.image
    # "All topics" is an empty list in version 0 and null from version 1 on.
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return (yield from _answer(context, request, _describe, image.topics.values()))
    ids: dict[TopicId, None] = {}
    names: dict[str, None] = {}
    for number, topic in enumerate(request.topics, 1):
        if context.api_version < 12:
            _refuse_topic_id(context.api_version, topic)
        if topic.topic_id != ZERO_TOPIC_ID:
            ids[TopicId(topic.topic_id)] = None
        elif topic.name is not None:
            names[topic.name] = None
        if not number % _NAMES_AT_ONCE:
            yield None
    if ids:
        # As in Kafka, a request with at least one id is a request by ids, and its names are ignored.
        return (yield from _answer(context, request, partial(_describe_by_id, context), ids))
    if request.allow_auto_topic_creation and context.broker.config.auto_create_topics_enable:
        yield from _create_missing(context, names)
    return (yield from _answer(context, request, partial(_describe_by_name, context), names))


def error_response(
    request: MetadataRequest, version: int, code: ErrorCode, message: str | None = None
) -> MetadataResponse:
    """Returns a response with this error for every topic, and from version 13 on for the request."""
    topics = [
        MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=code)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


def _refuse_topic_id(version: int, topic: MetadataRequestTopic) -> None:
    if topic.name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
    if topic.topic_id != ZERO_TOPIC_ID:
        reason = f"Topic IDs are not supported in requests for version {version}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _create_missing(context: RequestContext, names: Iterable[str]) -> Work[None]:
    image = context.broker.metadata.image
    # An internal topic has settings of its own. A Metadata request must not create it as an ordinary topic.
    topics: list[NewTopic] = []
    for number, name in enumerate(names, 1):
        if name not in image.topics and why_invalid(name) is None:
            if name == OFFSETS_TOPIC:
                yield from _create(context.broker.ensure_internal_topic(name))
            elif not is_internal(name):
                topics.append(NewTopic(name))
        if not number % _NAMES_AT_ONCE:
            yield None
    if topics:
        yield from _create(context.broker.metadata.create_topics(topics))
        yield from wait_for(context.broker.partitions.settled())


def _create(creation: Awaitable[object]) -> Work[None]:
    """Waits for the creation of topics, which continues if the client disconnects.

    As in Kafka, a topic that could not be created is reported as unknown, and the client gets the brokers and its other
    topics.
    """
    try:
        # A creation that stops halfway could leave the names of deleted topics in the checkpoints of the disk.
        yield from wait_for(asyncio.shield(creation))
    except KafkaError as error:
        _logger.info("topics that a client asked for were not created: %s", error.message or error.code.name)


def _answer(
    context: RequestContext,
    request: MetadataRequest,
    describe: Callable[[T], Described],
    asked: Iterable[T],
) -> Work[MetadataResponse]:
    topics: list[MetadataResponseTopic] = []
    described = 0
    for each in asked:
        topic, found = describe(each)
        if request.include_topic_authorized_operations and topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
        topics.append(topic)
        described += 1
        if found is not None:
            for start in range(0, len(found.partitions), _DESCRIBED_AT_ONCE):
                some = found.partitions[start : start + _DESCRIBED_AT_ONCE]
                topic.partitions += _describe_partitions(context, found, some)
                described += len(some)
                if described >= _DESCRIBED_AT_ONCE:
                    yield None
                    described = 0
        elif described >= _DESCRIBED_AT_ONCE:
            yield None
            described = 0
    nodes = nodes_for(context)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes
        ],
        cluster_id=context.broker.cluster_id,
        controller_id=controller_among(nodes, context.broker.metadata.image),
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _describe_by_id(context: RequestContext, topic_id: TopicId) -> Described:
    topic = context.broker.metadata.image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(name=None, topic_id=topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID), None
    return _describe(topic)


def _describe_by_name(context: RequestContext, name: str) -> Described:
    topic = context.broker.metadata.image.topics.get(name)
    if topic is not None:
        return _describe(topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if why_invalid(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(name=name, error_code=code, is_internal=is_internal(name)), None


def _describe(topic: TopicImage) -> Described:
    return MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal), topic


def _describe_partitions(
    context: RequestContext, topic: TopicImage, partitions: Sequence[PartitionImage]
) -> list[MetadataResponsePartition]:
    live = context.broker.metadata.image.brokers
    reachable = reachable_brokers(context)
    led = context.broker.partitions
    described = []
    for each in partitions:
        is_offline = led.is_offline(topic.name, each.index)
        partition = _describe_partition(reachable, each, context.api_version == 0, is_offline=is_offline)
        if (
            partition.leader_id == NO_BROKER
            and context.api_version >= _KNOWS_LISTENER_NOT_FOUND_FROM
            and each.leader in live
            and not is_offline
        ):
            # The leader lives, but not on the listener that this client uses.
            partition.error_code = ErrorCode.LISTENER_NOT_FOUND
        described.append(partition)
    return described


def _describe_partition(
    brokers: Collection[BrokerId], partition: PartitionImage, filters_replicas: bool, *, is_offline: bool
) -> MetadataResponsePartition:
    """Describes a partition. Version 0 leaves out offline replicas and reports an error instead (`KRaftMetadataCache`).

    If the leader's log `is_offline`, the partition has no leader and its replica is offline, as after the failure of a
    Kafka broker's log directory.
    """
    replicas, isr = partition.replicas, partition.isr
    if is_offline:
        brokers = [broker for broker in brokers if broker != partition.leader]
    offline: list[int] = [broker for broker in replicas if broker not in brokers]
    has_leader = partition.leader in brokers
    code = ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE
    if filters_replicas and offline:
        replicas = tuple(broker for broker in replicas if broker in brokers)
        isr = tuple(broker for broker in isr if broker in brokers)
        if has_leader:
            code = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=partition.leader if has_leader else NO_BROKER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(isr),
        offline_replicas=offline,
    )
