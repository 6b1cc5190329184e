"""Metadata: which brokers there are, which topics, and who leads their partitions.

Versions 0 to 13: 1 controller, rack and null for all topics, 2 cluster id, 3 throttling, 4 the client may forbid topic
creation, 5 offline replicas, 6 throttling before the answer, 7 leader epochs, 8 authorized operations, 9 flexible,
10 topic ids, 11 no cluster operations any more, 12 asking by topic id, 13 a top-level error.

Kafka answers a question about a topic that it is about to create with UNKNOWN_TOPIC_OR_PARTITION and creates it
meanwhile, so that every new topic costs its first client a back-off. Here the topic is created first and described in
the answer, which is what a client would have seen had it asked a moment later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable
from typing import TYPE_CHECKING

from klamm.broker.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from klamm.broker.nodes import nodes_for
from klamm.metadata.image import NO_BROKER, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.service import NewTopic
from klamm.metadata.topic_name import GROUP_METADATA_TOPIC, is_internal, why_invalid
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, TopicId

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    """The answer, at once unless topics have to be created first.

    Raises INVALID_REQUEST for topic ids, or a missing name, before version 12.
    """
    image = context.broker.metadata.image
    # "All topics" is an empty list in version 0 and null from version 1 on.
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return _answer(context, request, [_describe(image, topic, context) for topic in image.topics.values()])
    if context.api_version < 12:
        _refuse_topic_ids(context.api_version, request)
    asked = request.topics
    if any(topic.topic_id != ZERO_TOPIC_ID for topic in asked):
        # One id makes it a question by ids: names beside it are passed over, as in Kafka.
        ids = dict.fromkeys(TopicId(topic.topic_id) for topic in asked if topic.topic_id != ZERO_TOPIC_ID)
        return _answer(context, request, [_describe_by_id(context, topic_id) for topic_id in ids])
    names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
    missing = [name for name in names if name not in image.topics]
    if missing and request.allow_auto_topic_creation and context.broker.config.auto_create_topics_enable:
        creatable = [name for name in missing if why_invalid(name) is None]
        if creatable:
            return _create_and_answer(context, request, names, creatable)
    return _answer(context, request, [_describe_by_name(context, name) for name in names])


def error_response(
    request: MetadataRequest, version: int, code: ErrorCode, message: str | None = None
) -> MetadataResponse:
    """The answer that refuses every topic, and from version 13 on the request."""
    topics = [
        MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=code)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


def _refuse_topic_ids(version: int, request: MetadataRequest) -> None:
    for topic in request.topics or ():
        if topic.name is None:
            raise KafkaError(ErrorCode.invalid_request, f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_TOPIC_ID:
            reason = f"Topic IDs are not supported in requests for version {version}"
            raise KafkaError(ErrorCode.invalid_request, reason)


async def _create_and_answer(
    context: RequestContext, request: MetadataRequest, names: Iterable[str], creatable: Collection[str]
) -> MetadataResponse:
    if GROUP_METADATA_TOPIC in creatable:
        await context.broker.ensure_internal_topic(GROUP_METADATA_TOPIC)
    # An internal topic is made by whoever needs it, and as it needs it; a question about it must not make a common one.
    topics = [NewTopic(name) for name in creatable if not is_internal(name)]
    if topics:
        # What could not be created is unknown still, and that is what Kafka says of it too.
        await context.broker.metadata.create_topics(topics)
        await context.broker.partitions.settled()
    return _answer(context, request, [_describe_by_name(context, name) for name in names])


def _answer(context: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    image = context.broker.metadata.image
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != ErrorCode.unknown_topic_id:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes_for(context)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _describe_by_id(context: RequestContext, topic_id: TopicId) -> MetadataResponseTopic:
    image = context.broker.metadata.image
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(name=None, topic_id=topic_id, error_code=ErrorCode.unknown_topic_id)
    return _describe(image, topic, context)


def _describe_by_name(context: RequestContext, name: str) -> MetadataResponseTopic:
    image = context.broker.metadata.image
    topic = image.topics.get(name)
    if topic is not None:
        return _describe(image, topic, context)
    code = ErrorCode.unknown_topic_or_partition if why_invalid(name) is None else ErrorCode.invalid_topic_exception
    return MetadataResponseTopic(name=name, error_code=code, is_internal=is_internal(name))


def _describe(image: MetadataImage, topic: TopicImage, context: RequestContext) -> MetadataResponseTopic:
    brokers = image.brokers
    partitions = context.broker.partitions
    filters_replicas = context.api_version == 0
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _describe_partition(
                brokers, partition, filters_replicas, is_offline=partitions.is_offline(topic.name, partition.index)
            )
            for partition in topic.partitions
        ],
    )


def _describe_partition(
    brokers: Collection[BrokerId], partition: PartitionImage, filters_replicas: bool, *, is_offline: bool
) -> MetadataResponsePartition:
    """Version 0 leaves out replicas that are down, and calls that an error (`KRaftMetadataCache`).

    A leader whose log `is_offline` is none, and its replica is offline, as with a folder of a Kafka broker that failed.
    """
    replicas, isr = partition.replicas, partition.isr
    if is_offline:
        brokers = [broker for broker in brokers if broker != partition.leader]
    offline: list[int] = [broker for broker in replicas if broker not in brokers]
    has_leader = partition.leader in brokers
    code = ErrorCode.none if has_leader else ErrorCode.leader_not_available
    if filters_replicas and offline:
        replicas = tuple(broker for broker in replicas if broker in brokers)
        isr = tuple(broker for broker in isr if broker in brokers)
        if has_leader:
            code = ErrorCode.replica_not_available
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=partition.leader if has_leader else NO_BROKER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(isr),
        offline_replicas=offline,
    )
