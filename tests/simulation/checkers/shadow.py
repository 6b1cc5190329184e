"""I17: durable state in memory equals a replay of the log.

For each partition of the log, a second store replays each batch from the bytes on the disk when it is written. After
each step with a write, the coordinator's own store must be equal to the second store. The same holds after each load of
the whole log, compacted or not. The second store has the same class, so it would have the same bugs. That is why there
is also a plain model of the log (`log_model.py`), which uses only klamm's codec of the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.checkers.group_views import StoreView, view
from tests.simulation.checkers.log_model import LogModel
from tests.simulation.difference import difference
from tests.simulation.disk import Batch, Disk
from tests.simulation.violation import Violation

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.group_metadata import NO_METADATA
from klamm.core.group.group_kinds import empty_store
from klamm.core.group.group_store import GroupStore
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.records import decode_batch
from klamm.protocol.types import Offset, PartitionIndex
from klamm.runtime.record_serde import GroupRecordSerde

__all__ = ["Shadow", "WrittenRecord"]

_SKIPPED = ["ConsumerGroup.index"]


class WrittenRecord(NamedTuple):
    """A record that was just written, with its position."""

    partition: PartitionIndex
    offset: Offset
    record: CoordinatorRecord


class Shadow:
    """The second store of each partition of the log, and the comparison."""

    def __init__(
        self,
        partitions: int,
        on_record: Callable[[WrittenRecord], None],
        on_marker: Callable[[PartitionIndex, Batch, GroupStore], None],
    ) -> None:
        self._serde = GroupRecordSerde()
        self._on_record = on_record
        self._on_marker = on_marker
        self.stores = {PartitionIndex(index): empty_store() for index in range(partitions)}
        self.models = {partition: LogModel() for partition in self.stores}
        self.unchecked: set[PartitionIndex] = set()
        """Partitions that have changed since the last comparison."""
        self._loaded: set[PartitionIndex] = set(self.stores)
        """Partitions whose coordinator has read the whole log since the last comparison."""

    def on_appended(self, partition: PartitionIndex, batch: Batch) -> None:
        """Replays a written batch."""
        self.unchecked.add(partition)
        store, model = self.stores[partition], self.models[partition]
        for written in self._read(partition, batch):
            self._on_record(written)
            store.replay(written.offset, batch.producer_id, written.record)
            model.apply(written.offset, batch.producer_id, written.record)
        if batch.is_control:
            self._on_marker(partition, batch, store)
            is_commit = _is_commit(batch)
            store.replay_end_transaction_marker(batch.producer_id, is_commit)
            model.end_transaction(batch.producer_id, is_commit=is_commit)

    def on_truncated(self, disk: Disk, partition: PartitionIndex) -> None:
        """Replays the log that is left after a truncation."""
        self.stores[partition] = self.replay(disk, partition)
        self.models[partition] = self._model(disk, partition)
        self.unchecked.add(partition)

    def on_loaded(self, partition: PartitionIndex) -> None:
        """Notes that another coordinator loads the whole log of the partition."""
        self._loaded.add(partition)
        self.unchecked.add(partition)

    def replay(self, disk: Disk, partition: PartitionIndex) -> GroupStore:
        """Returns a store that is built from the whole log."""
        store = empty_store()
        for batch in disk.replicas[partition].batches:
            for written in self._read(partition, batch):
                store.replay(written.offset, batch.producer_id, written.record)
            if batch.is_control:
                store.replay_end_transaction_marker(batch.producer_id, _is_commit(batch))
        return store

    def _model(self, disk: Disk, partition: PartitionIndex) -> LogModel:
        model = LogModel()
        for batch in disk.replicas[partition].batches:
            for written in self._read(partition, batch):
                model.apply(written.offset, batch.producer_id, written.record)
            if batch.is_control:
                model.end_transaction(batch.producer_id, is_commit=_is_commit(batch))
        return model

    def compare(self, partition: PartitionIndex, store: GroupStore) -> None:
        """Compares the coordinator's store with the replay, between two steps."""
        expected, model = self.stores[partition], self.models[partition]
        what = model.changes(store)
        if partition in self._loaded:
            self._loaded.discard(partition)
            what = what or model.everything(store)
        if what is not None:
            raise Violation(17, f"partition {partition}:\n{what}")
        if store != expected and not _are_alike(store, expected):
            raise Violation(17, f"partition {partition}:\n{_report(store, expected)}")

    def check_log(self, disk: Disk, partition: PartitionIndex) -> None:
        """Checks that a replay of the log has the same result, even after compactions."""
        replayed, expected = self.replay(disk, partition), self.stores[partition]
        what = self.models[partition].everything(replayed)
        if what is not None:
            raise Violation(17, f"partition {partition}, its log replayed:\n{what}")
        if replayed != expected and not _are_alike(replayed, expected):
            raise Violation(17, f"partition {partition}, its log replayed:\n{_report(replayed, expected)}")

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
    """Returns whether two stores differ only in empty groups. A simple group whose offsets are removed has no record in
    a compacted log.
    """
    return _something(left) == _something(right)


def _something(store: GroupStore) -> StoreView:
    whole = view(store)
    groups = {
        group_id: group
        for group_id, group in whole.groups.items()
        if group != NO_METADATA or group_id in store.offsets or group_id in store.open_transactions
    }
    return whole._replace(groups=groups)


def _report(found: GroupStore, expected: GroupStore) -> str:
    return difference(view(found), view(expected), skipped=_SKIPPED)


def _is_commit(batch: Batch) -> bool:
    (record,) = decode_batch(batch.data)
    marker = read_end_transaction_marker(record)
    assert marker is not None
    return marker.is_commit
