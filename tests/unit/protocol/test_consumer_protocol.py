"""Tests the subscriptions and assignments that consumers exchange, which begin with their version."""

from __future__ import annotations

import pytest

from klamm.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.schema import consumer_protocol_assignment as assignments
from klamm.protocol.schema import consumer_protocol_subscription as subscriptions

SUBSCRIPTION = subscriptions.ConsumerProtocolSubscription(
    topics=["a", "b"],
    owned_partitions=[subscriptions.TopicPartition(topic="a", partitions=[0, 2])],
    generation_id=4,
    rack_id="r1",
)
ASSIGNMENT = assignments.ConsumerProtocolAssignment(
    assigned_partitions=[assignments.TopicPartition(topic="a", partitions=[0, 1])], user_data=b"u"
)


def test_a_subscription_comes_back() -> None:
    """A subscription in the newest version decodes to itself with all fields."""
    assert decode_subscription(encode_subscription(SUBSCRIPTION)) == SUBSCRIPTION
    assert decode_subscription(memoryview(encode_subscription(SUBSCRIPTION))) == SUBSCRIPTION


def test_an_old_subscription_has_only_what_its_version_has() -> None:
    """Version 0 of a subscription has only topics and user data; the oldest clients send this version."""
    encoded = encode_subscription(SUBSCRIPTION, 0)
    assert encoded == b"\x00\x00" + b"\x00\x00\x00\x02" + b"\x00\x01a" + b"\x00\x01b" + b"\xff\xff\xff\xff"
    assert decode_subscription(encoded) == subscriptions.ConsumerProtocolSubscription(topics=["a", "b"])


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_comes_back_in_every_version(version: int) -> None:
    """An assignment has the same form in every version and decodes to itself."""
    encoded = encode_assignment(ASSIGNMENT, version)
    assert encoded[2:] == encode_assignment(ASSIGNMENT)[2:]
    assert decode_assignment(encoded) == ASSIGNMENT


def test_a_version_of_the_future_is_read_as_the_newest_known() -> None:
    """An unknown newer version is read as the newest known one, because new versions add fields at the end."""
    assert decode_subscription(b"\x00\x09" + encode_subscription(SUBSCRIPTION)[2:] + b"more") == SUBSCRIPTION
    assert decode_assignment(b"\x00\x09" + encode_assignment(ASSIGNMENT)[2:] + b"more") == ASSIGNMENT


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x01\x7f\xff\xff\xff"])
def test_what_is_no_consumers_metadata_is_malformed(data: bytes) -> None:
    """Bytes that are no subscription or assignment are malformed; a client may send any bytes in their place."""
    with pytest.raises(MalformedMessage):
        decode_subscription(data)
    with pytest.raises(MalformedMessage):
        decode_assignment(data)
