"""What the metadata and assignments of a consumer group's members say, which the broker otherwise passes on unread.

Offsets of topics that nobody reads may expire, and offsets of topics that somebody reads must not be deleted; so the
topics are read, as Kafka's `ClassicGroup.computeSubscribedTopics` does: version 0 of the subscription is a prefix of
all later ones. The partitions are read for people only, and as late as possible.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping

from klamm.core.group.events import PartitionsByTopic
from klamm.protocol.codec import decode
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.types import PartitionIndex

__all__ = ["CONSUMER_PROTOCOL_TYPE", "NO_PARTITIONS", "Assignment", "owned_partitions", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE = "consumer"

NO_PARTITIONS: PartitionsByTopic = {}


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The union of all topics in the members' metadata, or None if one of them is not a consumer's subscription."""
    topics: set[str] = set()
    for subscription in subscriptions:
        # A version in front, then the struct. A negative version can't be read; a higher one can, as version 0.
        if len(subscription) < 2 or subscription[0] & 0x80:
            return None
        try:
            message, _ = decode(ConsumerProtocolSubscription, 0, subscription, 2)
        except MalformedMessage:
            return None
        topics.update(message.topics)
    return frozenset(topics)


def owned_partitions(subscription: bytes) -> PartitionsByTopic:
    """What a member says it goes on reading while it joins (KIP-429).

    Nothing before version 1, by eager assignors, which give up everything first, and in metadata that can't be read.
    """
    try:
        message = decode_subscription(subscription)
    except MalformedMessage:
        return NO_PARTITIONS
    return _by_topic((each.topic, each.partitions) for each in message.owned_partitions)


class Assignment(Mapping[str, frozenset[PartitionIndex]]):
    """The partitions in what a leader gave to a member: decoded when somebody looks, each time anew.

    What can't be read as an assignment names no partitions.
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __getitem__(self, topic: str) -> frozenset[PartitionIndex]:
        return self.decoded()[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.decoded())

    def items(self) -> ItemsView[str, frozenset[PartitionIndex]]:
        """Topics and partitions, decoded once."""
        return self.decoded().items()

    def __len__(self) -> int:
        return len(self.decoded())

    def __repr__(self) -> str:
        return repr(self.decoded())

    def decoded(self) -> dict[str, frozenset[PartitionIndex]]:
        """The same as a dict."""
        try:
            message = decode_assignment(self._data)
        except MalformedMessage:
            return {}
        return _by_topic((each.topic, each.partitions) for each in message.assigned_partitions)


def _by_topic(pairs: Iterable[tuple[str, list[int]]]) -> dict[str, frozenset[PartitionIndex]]:
    by_topic: dict[str, frozenset[PartitionIndex]] = {}
    for topic, partitions in pairs:
        # A topic may be named twice; nobody does it.
        by_topic[topic] = by_topic.get(topic, frozenset()) | frozenset(map(PartitionIndex, partitions))
    return by_topic
