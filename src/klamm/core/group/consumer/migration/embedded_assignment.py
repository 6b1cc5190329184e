"""Subscriptions and assignments of the classic protocol, as a consumer group understands them, and the way back.

In the classic protocol they are bytes that consumers make for each other (`ConsumerProtocol`), with topics by their
names; in a consumer group the broker reads and writes them.
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
    """An assignment carries data of an assignor of the application's own, which the broker would lose."""


def subscription(protocols: Protocols) -> ConsumerProtocolSubscription:
    """What a member reads, as it said of its first protocol: consumers say the same of each.

    Raises UNKNOWN_SERVER_ERROR for what can't be read, as Kafka does.
    """
    try:
        return decode_subscription(protocols[0][1])
    except MalformedMessage as error:
        raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error


def owned_partitions(topics: ClusterTopics, said: ConsumerProtocolSubscription) -> list[TopicPartitions]:
    """What a member said that it has, of topics that exist."""
    owned = []
    for topic in said.owned_partitions:
        facts = topics.by_name(topic.topic)
        if facts is not None:
            owned.append(TopicPartitions(topic_id=facts.topic_id, partitions=topic.partitions))
    return owned


def target(topics: ClusterTopics, assignment: bytes) -> Target:
    """What a leader gave to a member, of partitions that exist; nothing for one that has never been assigned.

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
        # The topic may have been made anew with fewer, or the leader may have heard of growth before the broker did.
        existing = frozenset(PartitionIndex(index) for index in topic.partitions if index < facts.partition_count)
        if existing:
            wanted[facts.topic_id] = existing
    return wanted or NO_TARGET


def assignment_bytes(
    topics: ClusterTopics, partitions: Mapping[TopicId, Iterable[PartitionIndex]], protocols: Protocols, name: str
) -> bytes:
    """Partitions as a leader would have written them for a member, in the version that the member's metadata has."""
    assigned = []
    for topic_id in sorted(partitions):
        facts = topics.by_id(topic_id)
        if facts is not None:
            assigned.append(TopicPartition(topic=facts.name, partitions=[*map(int, sorted(partitions[topic_id]))]))
    metadata = dict(protocols)[name]
    version = min(int.from_bytes(metadata[:2], "big"), _HIGHEST_VERSION)
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def protocol_name(member: ConsumerGroupMember) -> str:
    """The protocol that a member of the classic protocol was told to use: its own first one."""
    assert member.classic is not None
    return member.classic.protocols[0][0]
