"""DescribeTopicPartitions: returns topics and their partitions, page by page (KIP-966).

Version 0 only. Topics are ordered by name. The client and the broker (`max.request.partition.size.limit`) each limit
the number of partitions in a response; the smaller limit applies. A cursor tells where the next page begins.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.authorized_operations import TOPIC_OPERATIONS
from klamm.broker.handlers.shared.nodes import reachable_brokers
from klamm.broker.time_slices import Work, sorted_in_steps
from klamm.metadata.image import NO_BROKER, PartitionImage
from klamm.metadata.topic_name import is_internal, why_invalid
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from klamm.protocol.schema.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_DESCRIBED_AT_ONCE: Final = 100
"""Maximum number of partitions described in one step."""


def handle(context: RequestContext, request: DescribeTopicPartitionsRequest) -> Work[DescribeTopicPartitionsResponse]:
    """Returns the page that begins at the cursor.

    Raises INVALID_REQUEST for a cursor on a topic that the request does not name, or on a negative partition.
    """
    image = context.broker.metadata.image
    led = context.broker.partitions
    brokers = reachable_brokers(context)
    cursor = request.cursor
    first_topic = "" if cursor is None else cursor.topic_name
    asked: set[str] = set()
    for each in request.topics:
        asked.add(each.name)
        yield None
    if cursor is not None:
        if asked and first_topic not in asked:
            reason = f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {first_topic}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
        if cursor.partition_index < 0:
            reason = f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor.partition_index}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
    names = yield from sorted_in_steps(name for name in asked or image.topics if name >= first_topic)
    remaining = max(min(context.broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        yield None
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            # Kafka skips a topic deleted since it listed all topics. Here listing and lookup use the same image.
            response.topics.append(_unknown(name))
            continue
        first = cursor.partition_index if cursor is not None and name == first_topic else 0
        page = topic.partitions[first : first + remaining]
        described = DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            topic_authorized_operations=TOPIC_OPERATIONS,
        )
        response.topics.append(described)
        for start in range(0, len(page), _DESCRIBED_AT_ONCE):
            described.partitions += [
                _describe(brokers, partition, is_offline=led.is_offline(name, partition.index))
                for partition in page[start : start + _DESCRIBED_AT_ONCE]
            ]
            yield None
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            break
        remaining -= len(page)
    return response


def error_response(
    request: DescribeTopicPartitionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeTopicPartitionsResponse:
    """Returns a response with this error for every topic."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=code) for topic in request.topics]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if why_invalid(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        name=name, error_code=code, is_internal=is_internal(name), topic_authorized_operations=TOPIC_OPERATIONS
    )


def _describe(
    brokers: Collection[BrokerId], partition: PartitionImage, *, is_offline: bool
) -> DescribeTopicPartitionsResponsePartition:
    if is_offline:
        brokers = [broker for broker in brokers if broker != partition.leader]
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader if partition.leader in brokers else NO_BROKER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=[] if partition.last_known_leader == NO_BROKER else [partition.last_known_leader],
        offline_replicas=[broker for broker in partition.replicas if broker not in brokers],
    )
