"""The iteration order of Java's HashMap and HashSet, on which the results of Apache Kafka's assignors depend.

Kafka's `uniform` gives partitions to members, and takes them back, in the order of the hash tables that hold members,
topics and partitions. That order is deterministic: it follows from the keys' hashes, the number of buckets and, within
a bucket, the order of arrival. One case is not reproduced: a bucket of more than eight keys in a table of 64 or more
buckets, which Java turns into a tree. Here the keys of such a bucket stay in their order of arrival. The keys of
members and topics are random enough that this does not happen. For partitions, it requires a member with nine
partitions of one topic whose numbers differ by multiples of 64.

After the specification of `java.util.HashMap` (JDK 8 and later) and Apache Kafka's `BaseHashTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Generic, TypeVar

from klamm.core.coordinator.java_hash import java_hash
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = [
    "JavaHashTable",
    "capacity_for",
    "capacity_of_copy",
    "hash_set_of_partitions",
    "member_hash",
    "member_table",
    "partition_hash",
    "timeline_order",
    "topic_hash",
    "topic_table",
]

Key = TypeVar("Key")

DEFAULT_CAPACITY: Final = 16
_LONG_BUCKET: Final = 8
_SMALLEST_TABLE_WITH_TREES: Final = 64
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK_32: Final = 0xFFFFFFFF
_MASK_64: Final = 0xFFFFFFFFFFFFFFFF


_kept_hash: Final = lru_cache(maxsize=16_384)(java_hash)


class JavaHashTable(Generic[Key]):
    """The keys of a HashMap or HashSet. Iteration is in Java's order.

    `hash_of` returns a key's `hashCode` as a signed or unsigned 32-bit number. `capacity` is the number of buckets, a
    power of two.
    """

    __slots__ = ("_arrivals", "_capacity", "_hash_of", "_ticket")

    def __init__(self, hash_of: Callable[[Key], int], capacity: int = DEFAULT_CAPACITY) -> None:
        self._hash_of = hash_of
        self._capacity = capacity
        self._arrivals: dict[Key, tuple[int, int]] = {}
        """By key: the hash that selects the bucket, and the position within the bucket."""
        self._ticket = 0

    def __len__(self) -> int:
        return len(self._arrivals)

    def __contains__(self, key: object) -> bool:
        return key in self._arrivals

    def __iter__(self) -> Iterator[Key]:
        mask = self._capacity - 1
        arrivals = self._arrivals
        return iter(sorted(arrivals, key=lambda key: (arrivals[key][0] & mask, arrivals[key][1])))

    def put(self, key: Key) -> None:
        """Adds a key as `put`, `putIfAbsent` and `add` do: a new key goes to the end of its bucket."""
        if key in self._arrivals:
            return
        spread = self._spread(key)
        is_long = self._bucket_is_long(spread)
        self._ticket += 1
        self._arrivals[key] = (spread, self._ticket)
        if is_long:
            self._capacity *= 2
        if len(self._arrivals) > self._threshold():
            self._capacity *= 2

    def put_all(self, keys: Iterable[Key]) -> JavaHashTable[Key]:
        """Puts the keys in this order; returns the table."""
        for key in keys:
            self.put(key)
        return self

    def compute_if_absent(self, key: Key) -> None:
        """Adds a key as `computeIfAbsent` does: at the front of its bucket, and the table grows one key later."""
        if len(self._arrivals) > self._threshold():
            self._capacity *= 2
        if key in self._arrivals:
            return
        spread = self._spread(key)
        is_long = self._bucket_is_long(spread)
        self._ticket += 1
        self._arrivals[key] = (spread, -self._ticket)
        if is_long:
            self._capacity *= 2

    def remove(self, key: Key) -> None:
        """Removes the key; the capacity stays the same."""
        self._arrivals.pop(key, None)

    def _spread(self, key: Key) -> int:
        value = self._hash_of(key) & _MASK_32
        return value ^ (value >> 16)

    def _threshold(self) -> int:
        return self._capacity * 3 // 4

    def _bucket_is_long(self, spread: int) -> bool:
        """Returns whether one more key in this bucket makes a small table grow."""
        if len(self._arrivals) < _LONG_BUCKET or self._capacity >= _SMALLEST_TABLE_WITH_TREES:
            return False
        mask = self._capacity - 1
        bucket = spread & mask
        return sum(other & mask == bucket for other, _ in self._arrivals.values()) >= _LONG_BUCKET


def capacity_for(initial_capacity: int) -> int:
    """Returns the number of buckets of `new HashMap<>(initialCapacity)`: the next power of two."""
    return 1 << max(initial_capacity - 1, 0).bit_length()


def capacity_of_copy(size: int) -> int:
    """Returns the number of buckets of `new HashSet<>(collection)` for a collection of that size."""
    return capacity_for(max(size * 4 // 3 + 1, DEFAULT_CAPACITY))


def member_hash(member_id: str) -> int:
    """Returns `String.hashCode`, cached, because each new target needs the hash of every member."""
    return _kept_hash(member_id)


def topic_hash(topic_id: TopicId) -> int:
    """Returns `org.apache.kafka.common.Uuid.hashCode`, unsigned."""
    folded = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return (folded >> 32) ^ (folded & _MASK_32)


def partition_hash(partition: PartitionIndex) -> int:
    """Returns `Integer.hashCode`."""
    return partition


def member_table(member_ids: Iterable[str]) -> JavaHashTable[str]:
    """Returns a HashMap into which the members were put in this order."""
    return JavaHashTable(member_hash).put_all(member_ids)


def topic_table(topics: Iterable[TopicId], capacity: int = DEFAULT_CAPACITY) -> JavaHashTable[TopicId]:
    """Returns a HashMap or HashSet into which the topics were put in this order."""
    return JavaHashTable(topic_hash, capacity).put_all(topics)


def hash_set_of_partitions(partitions: Sequence[PartitionIndex]) -> JavaHashTable[PartitionIndex]:
    """Returns `new HashSet<>(list)`."""
    return JavaHashTable(partition_hash, capacity_of_copy(len(partitions))).put_all(partitions)


def timeline_order(keys: Iterable[str], largest_size: int = 0) -> list[str]:
    """Returns keys, given in the order in which they were put, in the iteration order of Kafka's TimelineHashMap.

    Kafka keeps the members of a group in such a map. The map never shrinks: `largest_size` is the largest number of
    keys that it ever had. Without it, the map is assumed to have never had more keys than now.
    """
    arrived = list(keys)
    capacity = 2
    # Replacing a value makes the table grow like a new key, and every member is replaced soon after it joined.
    while (max(len(arrived), largest_size) + 1) * 0.75 > capacity:
        capacity *= 2
    shift = 65 - capacity.bit_length()
    slots = [((member_hash(key) * _GOLDEN) & _MASK_64) >> shift for key in arrived]
    # Among keys that share a slot, the last one comes first.
    return [arrived[index] for index in sorted(range(len(arrived)), key=lambda index: (slots[index], -index))]
