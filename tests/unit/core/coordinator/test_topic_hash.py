"""Tests the hashes over topics against figures that hash4j, the library of Kafka, printed."""

from __future__ import annotations

from klamm.core.coordinator.topic_hash import group_hash, topic_hash
from klamm.protocol.types import TopicId

TOPIC_ID = TopicId(bytes(range(1, 17)))
ORDERS = 4650268362809691747


def test_a_topics_hash_covers_name_id_partitions_and_racks() -> None:
    """A topic's hash covers its name, id, partition count and sorted racks, with characters as in Java."""
    racks = ({"b", "a"}, (), {"rück"})
    assert topic_hash("orders", TOPIC_ID, 3, racks) == ORDERS
    assert topic_hash("orders", TOPIC_ID, 3, ()) != ORDERS
    assert topic_hash("orders", TOPIC_ID, 4, (*racks, ())) != ORDERS


def test_a_groups_hash_goes_by_topic_name() -> None:
    """A group's hash sorts its topics by name, so their order does not matter; a group without topics has hash 0."""
    assert group_hash([("z", -5), ("orders", ORDERS)]) == 7106315223891613732
    assert group_hash([]) == 0
