"""Tests of the iteration order of Java's hash tables. The expected values were printed by Java."""

from __future__ import annotations

import pytest

from klamm.core.coordinator.java_hash import java_hash
from klamm.core.group.assignors.java_hash_order import (
    JavaHashTable,
    capacity_for,
    capacity_of_copy,
    hash_set_of_partitions,
    member_table,
    partition_hash,
    timeline_order,
    topic_hash,
    topic_table,
)
from klamm.protocol.types import PartitionIndex, TopicId


def _members(*numbers: int) -> list[str]:
    return [f"member-{number}" for number in numbers]


MEMBERS = _members(*(index * index for index in range(14)))


def _partitions(*indexes: int) -> list[PartitionIndex]:
    return [PartitionIndex(index) for index in indexes]


def test_a_map_of_strings_that_has_grown() -> None:
    """Fourteen keys take 32 buckets, and a key that is removed and put again has its old place in the order."""
    expected = _members(121, 100, 144, 16, 49, 25, 36, 4, 9, 64, 81, 1, 0, 169)
    table = member_table(MEMBERS)
    assert list(table) == expected
    table.remove("member-0")
    table.put("member-0")
    assert list(table) == expected
    assert len(table) == 14
    assert "member-0" in table
    assert "member-2" not in table


def test_strings_beyond_latin() -> None:
    """The hash of a string is computed over its UTF-16 units; within a bucket, keys are in the order of insertion."""
    table = JavaHashTable(java_hash).put_all(["größe", "ключ", "鍵", "🗝", "key"])
    assert list(table) == ["größe", "鍵", "ключ", "🗝", "key"]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        pytest.param((40, 8, 24, 3, 19, 100, 36), (3, 19, 100, 36, 40, 8, 24), id="order of arrival in a bucket"),
        pytest.param((65536, 1, 65537, 0, 131072), (65537, 0, 65536, 1, 131072), id="high bits count"),
        pytest.param(
            (144, 128, 112, 96, 80, 64, 48, 32, 16),
            (128, 96, 64, 32, 144, 112, 80, 48, 16),
            id="nine in one bucket make a small table grow",
        ),
        pytest.param(
            (160, 145, 128, 113, 96, 81, 64, 49, 32, 17), (160, 128, 96, 64, 32, 145, 113, 81, 49, 17), id="two buckets"
        ),
        pytest.param((), (), id="empty"),
    ],
)
def test_sets_of_partitions(listed: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """A `HashSet` that is made of a list of partitions iterates in Java's order."""
    assert list(hash_set_of_partitions(_partitions(*listed))) == list(expected)


def test_compute_if_absent_puts_in_front() -> None:
    """`computeIfAbsent` and `put` place a key differently in its bucket, and let the map grow at different sizes."""
    computed, put = (JavaHashTable(partition_hash, capacity_for(3)) for _ in range(2))
    for partition in _partitions(1, 9, 17, 25, 25):
        computed.compute_if_absent(partition)
        put.put(partition)
    assert list(computed) == [25, 17, 9, 1]
    assert list(put) == [1, 9, 17, 25]


def test_topic_ids() -> None:
    """`Uuid.hashCode` folds both halves into 32 bits."""
    one = TopicId(bytes.fromhex("0123456789abcdeffedcba9876543210"))
    other = TopicId((-5).to_bytes(8, "big", signed=True) + (77).to_bytes(8, "big"))
    assert topic_hash(one) == 0
    assert topic_hash(other) == 73
    assert list(topic_table([other, one])) == [one, other]


def test_timeline_maps() -> None:
    """Kafka's own map takes the bits of a bucket from the other end, and iterates each bucket from its last key."""
    expected = _members(49, 36, 0, 25, 64, 9, 4, 16, 1)
    assert timeline_order(MEMBERS[:9]) == expected
    assert timeline_order(MEMBERS[:3], largest_size=9) == _members(0, 4, 1)
    assert timeline_order([]) == []


def test_capacities() -> None:
    """Capacities are powers of two; the capacity of a copy leaves room to grow."""
    assert [capacity_for(size) for size in (0, 1, 2, 3, 4, 5, 17)] == [1, 1, 2, 4, 4, 8, 32]
    assert [capacity_of_copy(size) for size in (0, 11, 12, 23, 24)] == [16, 16, 32, 32, 64]
