"""Subscriptions and assignments of the classic protocol, decoded and encoded for a consumer group.

In the classic protocol they are bytes that consumers write for each other (`ConsumerProtocol`), with topic names. In a
consumer group the broker reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.group.classic.member import Protocols
from klamm.core.group.consumer.member import NO_TARGET, ConsumerGroupMember, Target
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.schema.consumer_group_heartbeat_request import TopicPartitions
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["CustomAssignor", "assignment_bytes", "owned_partitions", "protocol_name", "subscription", "target"]

_HIGHEST_VERSION: Final = 3


class CustomAssignor(Exception):
    """An assignment carries data of a custom assignor, which the broker would lose."""


def subscription(protocols: Protocols) -> ConsumerProtocolSubscription:
    """Returns the subscription in a member's first protocol; consumers send the same one in each.

    Raises UNKNOWN_SERVER_ERROR if it can't be decoded, as Kafka does.
    """
    try:
        return decode_subscription(protocols[0][1])
    except MalformedMessage as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def owned_partitions(topics: ClusterTopics, decoded: ConsumerProtocolSubscription) -> list[TopicPartitions]:
    """Returns the partitions that a member lists as owned, of topics that exist."""
    owned = []
    for topic in decoded.owned_partitions:
        facts = topics.by_name(topic.topic)
        if facts is not None:
            owned.append(TopicPartitions(topic_id=facts.topic_id, partitions=topic.partitions))
    return owned


def target(topics: ClusterTopics, assignment: bytes) -> Target:
    """Returns the existing partitions that a leader assigned to a member; none for an empty assignment.

    Raises MalformedMessage or CustomAssignor.
    """
    if not assignment:
        return NO_TARGET
    message = decode_assignment(assignment)
    if message.user_data:
        raise CustomAssignor
    wanted = {}
    for topic in message.assigned_partitions:
        facts = topics.by_name(topic.topic)
        if facts is None:
            continue
        # The topic may be a new one with fewer partitions, or the leader may know of added ones before the broker does.
        existing = frozenset(PartitionIndex(index) for index in topic.partitions if index < facts.partition_count)
        if existing:
            wanted[facts.topic_id] = existing
    return wanted or NO_TARGET


def assignment_bytes(
    topics: ClusterTopics, partitions: Mapping[TopicId, Iterable[PartitionIndex]], protocols: Protocols, name: str
) -> bytes:
    """Encodes partitions as a leader would for a member, in the version of the member's metadata."""
    assigned = []
    for topic_id in sorted(partitions):
        facts = topics.by_id(topic_id)
        if facts is not None:
            assigned.append(TopicPartition(topic=facts.name, partitions=[*map(int, sorted(partitions[topic_id]))]))
    metadata = dict(protocols)[name]
    version = min(int.from_bytes(metadata[:2], "big"), _HIGHEST_VERSION)
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def protocol_name(member: ConsumerGroupMember) -> str:
    """Returns the protocol that a member of the classic protocol was told to use: its own first one."""
    assert member.classic is not None
    return member.classic.protocols[0][0]
