"""Commits that are accepted but not appended yet, so that a later commit of the same partition can replace them.

Within one generation or member epoch the last commit replaces the previous one, even if its offset is smaller, because
the log would have the same final state. Commits of different epochs are both written, in their order of arrival.

This is volatile state: lingering commits have not been acknowledged to any client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import PartitionIndex

__all__ = ["LingeringCommits"]

_RECORD_BYTES: Final = 128
"""An upper limit for the size of a record without its three texts."""

_Partitions: TypeAlias = dict[PartitionIndex, tuple[int, CoordinatorRecord]]
_NONE: Final[Mapping[PartitionIndex, tuple[int, CoordinatorRecord]]] = MappingProxyType({})


class LingeringCommits:
    """Records of OffsetCommits, by group, topic and partition, each with the epoch of its commit."""

    __slots__ = ("_latest", "_settled", "_size_bytes")

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], _Partitions] = {}
        self._settled: list[CoordinatorRecord] = []
        """Records that can no longer be replaced, because a commit of another epoch follows."""
        self._size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._latest)

    def of_topic(self, group_id: str, topic: str) -> Mapping[PartitionIndex, tuple[int, CoordinatorRecord]]:
        """Returns the latest lingering commits of a group to a topic: epoch and record by partition."""
        return self._latest.get((group_id, topic), _NONE)

    def put(self, records: Iterable[CoordinatorRecord], epoch: int, limit_bytes: int) -> bool:
        """Keeps the records of one commit; returns False and keeps none if more than `limit_bytes` would linger."""
        added: list[tuple[_Partitions, PartitionIndex, CoordinatorRecord]] = []
        size_bytes = self._size_bytes
        for record in records:
            key = record.key
            assert isinstance(key, OffsetCommitKey)
            partitions = self._latest.setdefault((key.group, key.topic), {})
            partition = PartitionIndex(key.partition)
            added.append((partitions, partition, record))
            size_bytes += _bytes_at_most(record)
            before = partitions.get(partition)
            if before is not None and before[0] == epoch:
                size_bytes -= _bytes_at_most(before[1])
        if size_bytes > limit_bytes:
            return False
        self._size_bytes = size_bytes
        for partitions, partition, record in added:
            before = partitions.get(partition)
            if before is not None and before[0] != epoch:
                self._settled.append(before[1])
            partitions[partition] = (epoch, record)
        return True

    def take(self) -> list[CoordinatorRecord]:
        """Returns all lingering records, older epochs of a partition first, and stops keeping them."""
        records = self._settled
        for partitions in self._latest.values():
            records += [record for _, record in partitions.values()]
        self._latest, self._settled, self._size_bytes = {}, [], 0
        return records


def _bytes_at_most(record: CoordinatorRecord) -> int:
    key, value = record.key, record.value
    assert isinstance(key, OffsetCommitKey)
    assert isinstance(value, OffsetCommitValue)
    return _RECORD_BYTES + sum(
        len(text) if text.isascii() else 4 * len(text) for text in (key.group, key.topic, value.metadata)
    )
