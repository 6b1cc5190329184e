"""The metadata and assignments of consumers in a classic group, which the broker otherwise passes on undecoded.

Offsets of topics that no member reads may expire, and offsets of topics that a member reads must not be deleted. So the
broker decodes the topics, as Kafka's `ClassicGroup.computeSubscribedTopics` does: version 0 of the subscription is a
prefix of all later versions. Partitions are decoded only to be shown to people, and as late as possible.
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
    """Returns the union of the topics in the members' metadata; None if one is not a consumer's subscription."""
    topics: set[str] = set()
    for subscription in subscriptions:
        # The version comes first, then the struct. A negative version can't be decoded; a higher one can, as version 0.
        if len(subscription) < 2 or subscription[0] & 0x80:
            return None
        try:
            message, _ = decode(ConsumerProtocolSubscription, 0, subscription, 2)
        except MalformedMessage:
            return None
        topics.update(message.topics)
    return frozenset(topics)


def owned_partitions(subscription: bytes) -> PartitionsByTopic:
    """Returns the partitions that a member keeps reading while it joins (KIP-429).

    Empty before version 1, for eager assignors, which revoke everything first, and if the metadata can't be decoded.
    """
    try:
        message = decode_subscription(subscription)
    except MalformedMessage:
        return NO_PARTITIONS
    return _by_topic((each.topic, each.partitions) for each in message.owned_partitions)


class Assignment(Mapping[str, frozenset[PartitionIndex]]):
    """The partitions of a leader's assignment to a member, decoded again at each access.

    Bytes that are not an assignment give no partitions.
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __getitem__(self, topic: str) -> frozenset[PartitionIndex]:
        return self.decoded()[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.decoded())

    def items(self) -> ItemsView[str, frozenset[PartitionIndex]]:
        """Returns topics and partitions, decoded once."""
        return self.decoded().items()

    def __len__(self) -> int:
        return len(self.decoded())

    def __repr__(self) -> str:
        return repr(self.decoded())

    def decoded(self) -> dict[str, frozenset[PartitionIndex]]:
        """Returns topics and partitions as a dict."""
        try:
            message = decode_assignment(self._data)
        except MalformedMessage:
            return {}
        return _by_topic((each.topic, each.partitions) for each in message.assigned_partitions)


def _by_topic(pairs: Iterable[tuple[str, list[int]]]) -> dict[str, frozenset[PartitionIndex]]:
    by_topic: dict[str, frozenset[PartitionIndex]] = {}
    for topic, partitions in pairs:
        # The format allows a topic twice, though no client sends that.
        by_topic[topic] = by_topic.get(topic, frozenset()) | frozenset(map(PartitionIndex, partitions))
    return by_topic
