"""Which topics the members of a consumer group have subscribed to, read from the metadata they joined with.

The broker passes a member's metadata through unread, with this one exception: offsets of topics that nobody reads may
expire, and offsets of topics that somebody reads must not be deleted. Version 0 of the subscription is a prefix of
all later ones, so that is how it is read (Kafka's `ClassicGroup.computeSubscribedTopics`).
"""

from __future__ import annotations

from collections.abc import Iterable

from klamm.protocol.codec import decode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = ["CONSUMER_PROTOCOL_TYPE", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE = "consumer"


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
