"""I17: durable state in memory equals a replay of the log.

Beside each partition of the log a second store replays what is written, from the bytes on the disk, as it is written.
After each step that wrote something the coordinator's own store has to be equal to it; so it has to be after each load,
which read the whole log, compacted or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.disk import Batch, Disk
from tests.simulation.violation import Violation

from klamm.core.coordinator.contract import CoordinatorRecord
from klamm.core.group.metadata import NO_METADATA
from klamm.core.group.store import GroupStore
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.records import decode_batch
from klamm.protocol.types import Offset, PartitionIndex
from klamm.runtime.record_serde import GroupRecordSerde

__all__ = ["Shadow", "WrittenRecord"]

_COMPARED = [name for name in GroupStore.__slots__ if name not in ("taken_back", "_last_ended")]
"""All but hints, which compaction may take away."""


class WrittenRecord(NamedTuple):
    """A record that was just written, and the store as it was before."""

    partition: PartitionIndex
    offset: Offset
    record: CoordinatorRecord


class Shadow:
    """A store for each partition of the log, and the comparison."""

    def __init__(
        self,
        partitions: int,
        on_record: Callable[[WrittenRecord], None],
        on_marker: Callable[[Batch, GroupStore], None],
    ) -> None:
        self._serde = GroupRecordSerde()
        self._on_record = on_record
        self._on_marker = on_marker
        self.stores = {PartitionIndex(index): GroupStore() for index in range(partitions)}
        self.unchecked: set[PartitionIndex] = set()
        """Partitions that have changed since the last comparison."""

    def on_appended(self, partition: PartitionIndex, batch: Batch) -> None:
        """Replay what was written."""
        self.unchecked.add(partition)
        store = self.stores[partition]
        for written in self._read(partition, batch):
            self._on_record(written)
            store.replay(written.offset, batch.producer_id, written.record)
        if batch.is_control:
            self._on_marker(batch, store)
        self._end(store, batch)

    def on_truncated(self, disk: Disk, partition: PartitionIndex) -> None:
        """Replay what is left."""
        self.stores[partition] = self.replay(disk, partition)
        self.unchecked.add(partition)

    def replay(self, disk: Disk, partition: PartitionIndex) -> GroupStore:
        """A store made of the whole log."""
        store = GroupStore()
        for batch in disk.replicas[partition].batches:
            for written in self._read(partition, batch):
                store.replay(written.offset, batch.producer_id, written.record)
            self._end(store, batch)
        return store

    def _end(self, store: GroupStore, batch: Batch) -> None:
        if batch.is_control:
            (record,) = decode_batch(batch.data)
            marker = read_end_transaction_marker(record)
            assert marker is not None
            store.replay_end_transaction_marker(batch.producer_id, marker.is_commit)

    def compare(self, partition: PartitionIndex, store: GroupStore) -> None:
        """The coordinator's store, between two steps."""
        expected = self.stores[partition]
        if store != expected and not _are_alike(store, expected):
            raise Violation(17, f"partition {partition}: {_difference(store, expected)}")

    def check_log(self, disk: Disk, partition: PartitionIndex) -> None:
        """The log, however often it was compacted, still says the same."""
        replayed, expected = self.replay(disk, partition), self.stores[partition]
        if replayed != expected and not _are_alike(replayed, expected):
            raise Violation(17, f"partition {partition}, its log replayed: {_difference(replayed, expected)}")

    def _read(self, partition: PartitionIndex, batch: Batch) -> list[WrittenRecord]:
        written: list[WrittenRecord] = []
        if batch.is_control:
            return written
        for record in decode_batch(batch.data):
            decoded = self._serde.deserialize(record.key or b"", record.value)
            if decoded is not None:
                written.append(WrittenRecord(partition, Offset(record.offset), decoded))
        return written


def _are_alike(left: GroupStore, right: GroupStore) -> bool:
    """Whether stores differ only in groups that have nothing: a simple group whose offsets are gone is in no record of
    a compacted log.
    """
    names = [name for name in _COMPARED if name != "groups"]
    return _something(left) == _something(right) and all(getattr(left, name) == getattr(right, name) for name in names)


def _something(store: GroupStore) -> dict[str, object]:
    return {
        group_id: group
        for group_id, group in store.groups.items()
        if group != NO_METADATA or group_id in store.offsets or group_id in store.open_transactions
    }


def _difference(left: GroupStore, right: GroupStore) -> str:
    for name in _COMPARED:
        one, other = getattr(left, name), getattr(right, name)
        if one != other:
            return f"{name} is\n  {one}\nand the log says\n  {other}"
    return "no difference"
