"""The expected content of the partitions: acknowledged batches, their offsets, and the records that readers have seen.

A record's value is unique in its world and names its writer. So two records with equal values are the same record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.violation import Violation

from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.transactions import Transaction

__all__ = ["Batch", "Model", "PartitionModel"]


@dataclass(slots=True, eq=False)
class Batch:
    """A batch that a client has asked to write."""

    where: TopicPartition
    producer: str
    values: tuple[bytes, ...]
    time_ms: int
    """The timestamp of its records."""
    is_idempotent: bool
    """Whether the batch may be there only once, and only in the order of its producer."""
    transaction: Transaction | None = None
    first_offset: int | None = None
    """The offset of the first record, once it was acknowledged."""


@dataclass(slots=True)
class PartitionModel:
    """One partition."""

    batches: list[Batch] = field(default_factory=list)
    of_value: dict[bytes, Batch] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """Leader epochs by offset, from the records that were read."""
    known: dict[int, bytes | None] = field(default_factory=dict)
    """Values by offset, from acknowledgements and readers; None for a control record."""
    newest_epoch: int = -1
    """The highest leader epoch of a record that was read."""
    synced_offset: int = 0
    end_offset: int = 0
    """The synced offset and the end offset when the last life ended."""
    high_watermark: int = 0
    """The highest high watermark that any client was told."""
    deleted: int = 0
    """Leaders have deleted the records below this offset. They may come back after a crash, as in Kafka, or others that
    diverged there: see `Model.see`."""
    cuts: int = 0
    """Number of crashes and elections that removed offsets which a client knew."""

    def time_of(self, offset: int) -> int | None:
        """Returns the timestamp of a known record; None if the record is unknown, was deleted, or is a marker."""
        value = None if offset < self.deleted else self.known.get(offset)
        return None if value is None else self.of_value[value].time_ms

    def times(self) -> list[int]:
        """Returns the timestamps of all known records."""
        return sorted({self.of_value[value].time_ms for value in self.known.values() if value is not None})

    def first_at(self, time_ms: int) -> int | None:
        """Returns the first known offset below the high watermark whose timestamp is `time_ms` or later."""
        found = (
            offset
            for offset, value in self.known.items()
            if value is not None
            and self.of_value[value].time_ms >= time_ms
            and self.deleted <= offset < self.high_watermark
        )
        return min(found, default=None)

    def check_time(self, name: str, time_ms: int, offset: int, found_ms: int, before: int | None) -> None:
        """Checks the answer to a lookup by timestamp; `before` is the answer that was known at the request."""
        if before is not None and before < self.deleted:
            before = None
        if offset < 0:
            if before is not None:
                raise Violation(9, f"{name} has nothing at or after {time_ms}, and {before} is")
            return
        own_ms = self.time_of(offset)
        if (before is not None and offset > before) or found_ms < time_ms or own_ms not in (None, found_ms):
            raise Violation(
                9,
                f"the first offset of {name} at or after {time_ms} is {offset} of {found_ms};"
                f" {before} is known, and {offset} is of {own_ms}",
            )

    def check_latest_time(self, name: str, offset: int, found_ms: int) -> None:
        """Checks the answer to a lookup of the newest timestamp."""
        if offset >= 0 and self.time_of(offset) not in (None, found_ms):
            raise Violation(9, f"the newest timestamp of {name} is {found_ms} at {offset}: {self.time_of(offset)}")

    def check_epoch_end(self, name: str, epoch: int, before: Mapping[int, int], found: tuple[int, int]) -> None:
        """Checks the reported end of a leader epoch (KIP-101); `before` has the epochs that were known before."""
        found_epoch, end = found
        for offset, of_offset in before.items():
            if offset < self.deleted:
                continue  # A log forgets the epochs of deleted records.
            if (of_offset <= epoch and offset >= end >= 0) or (of_offset > epoch and offset < end):
                raise Violation(
                    1, f"{name} says that epoch {epoch} ended at {end}, and has epoch {of_offset} at offset {offset}"
                )
        if found_epoch > epoch:
            raise Violation(1, f"{name} answers epoch {found_epoch} for {epoch}")


class Model:
    """All partitions. With `waits_for_disk`, no client learns of a record before the record is on the disk."""

    def __init__(self, partitions: Iterable[TopicPartition], *, waits_for_disk: bool) -> None:
        self.waits_for_disk = waits_for_disk
        self.partitions: Mapping[TopicPartition, PartitionModel] = {where: PartitionModel() for where in partitions}

    def begin(self, batch: Batch) -> None:
        """Adds a batch that a client is about to write."""
        partition = self.partitions[batch.where]
        partition.batches.append(batch)
        for value in batch.values:
            partition.of_value[value] = batch

    def acknowledge(self, batch: Batch, first_offset: int) -> None:
        """Records that the broker acknowledged a batch at `first_offset`."""
        batch.first_offset = first_offset
        for offset, value in enumerate(batch.values, first_offset):
            self.see(batch.where, offset, value)

    def see(self, where: TopicPartition, offset: int, value: bytes | None, epoch: int | None = None) -> None:
        """Records what a client learned about an offset: its value, and its leader epoch if it is known.

        A log that diverges below its leader's log start is not truncated, as in Kafka: the leader does not know the
        epochs of deleted records any more. Such a log may have other records there, and lead later, when a crash has
        taken back its own log start.
        """
        partition = self.partitions[where]
        if offset < partition.deleted and offset in partition.known:
            return
        if epoch is not None:
            partition.newest_epoch = max(partition.newest_epoch, epoch)
        if epoch is not None and partition.epochs.setdefault(offset, epoch) != epoch:
            raise Violation(1, f"{where} has epoch {epoch} at offset {offset}, and had {partition.epochs[offset]}")
        known = partition.known
        if offset in known:
            if known[offset] != value:
                raise Violation(9, f"{where} has {value!r} at offset {offset}, and had {known[offset]!r}")
            return
        if value is not None and value not in partition.of_value:
            raise Violation(9, f"{where} has {value!r} at offset {offset}, which nobody has written there")
        known[offset] = value

    def cut(self, where: TopicPartition, end: int) -> None:
        """Removes the records from offset `end` on: the log ends there after a crash."""
        partition = self.partitions[where]
        gone = sorted(offset for offset in partition.known if offset >= end)
        if gone and self.waits_for_disk:
            raise Violation(
                4, f"{where} ends at {end} after a crash: {partition.known[gone[0]]!r} at {gone[0]} is gone"
            )
        if gone or partition.high_watermark > end:
            partition.cuts += 1
        for offset in gone:
            del partition.known[offset]
            partition.epochs.pop(offset, None)
        for batch in partition.batches:
            if batch.first_offset is not None and batch.first_offset >= end:
                batch.first_offset = None
        partition.high_watermark = min(partition.high_watermark, end)
