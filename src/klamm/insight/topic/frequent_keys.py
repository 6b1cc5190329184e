"""The most frequent keys of a stream of records, in bounded memory.

Counts are exact until there are too many keys. From then on, keys that have been rare are dropped at times. A key
that comes back may have lost a part of its weight: at most the total weight divided by the capacity. So no key with a
larger share is ever missed. This is the algorithm of Misra and Gries (Finding repeated elements, 1982) with the removal
in steps of Anderson and others (A High-Performance Algorithm for Identifying Frequent Items in Data Streams, 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

__all__ = ["FrequentKey", "FrequentKeys", "LongKey", "RecordKey", "record_key"]

_CAPACITY: Final = 20_000
_LONGEST_BYTES: Final = 256
_KEPT_BYTES: Final = 64


class LongKey(NamedTuple):
    """A key that is too long to be kept: its first bytes, its length in bytes, and its SHA-256."""

    start: bytes
    length: int
    digest: bytes


RecordKey: TypeAlias = bytes | LongKey | None
"""The key of a record; None for a record without a key."""


def record_key(key: bytes | None) -> RecordKey:
    """Returns the key, or a shorter value that stands for it."""
    if key is None or len(key) <= _LONGEST_BYTES:
        return key
    return LongKey(key[:_KEPT_BYTES], len(key), sha256(key).digest())


class FrequentKey(NamedTuple):
    """A key with its weight (records or bytes)."""

    key: RecordKey
    weight: int
    """The counted weight: a lower limit of the real one."""
    missed: int
    """How much weight may be missing at most; 0 if the count is exact."""
    partitions: Mapping[int, int]
    """The counted weight in each partition."""


class _Entry:
    """A counted key. `weight` is counted since the key was added, when `missed` could be lost already."""

    __slots__ = ("missed", "partitions", "weight")

    def __init__(self, missed: int) -> None:
        self.weight = 0
        self.missed = missed
        self.partitions: dict[int, int] = {}


class FrequentKeys:
    """Counts the weights of keys. Keeps at most twice `capacity` keys."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._entries: dict[RecordKey, _Entry] = {}
        self._missed = 0
        """The largest weight that a key without an entry can have."""

    @property
    def is_exact(self) -> bool:
        """Whether no key was dropped."""
        return not self._missed

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: RecordKey, partition: int, weight: int) -> None:
        """Adds the weight of one record."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self._missed)
        entry.weight += weight
        entry.partitions[partition] = entry.partitions.get(partition, 0) + weight
        if len(self._entries) > 2 * self._capacity:
            self._drop_rare()

    def heaviest(self) -> list[FrequentKey]:
        """Returns the kept keys, the heaviest first, without those of which more may be missing than was counted."""
        found = [
            FrequentKey(key, entry.weight, entry.missed, entry.partitions)
            for key, entry in self._entries.items()
            if entry.weight > entry.missed
        ]
        return sorted(found, key=lambda each: each.weight, reverse=True)

    def _drop_rare(self) -> None:
        """Takes the same weight from all keys, so that at most `capacity` of them keep some."""
        left = {key: entry.weight - (self._missed - entry.missed) for key, entry in self._entries.items()}
        taken = sorted(left.values(), reverse=True)[self._capacity]
        self._missed += taken
        self._entries = {key: self._entries[key] for key, weight in left.items() if weight > taken}
