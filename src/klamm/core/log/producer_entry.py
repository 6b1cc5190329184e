"""What a log knows of one producer: its last five batches, and its entries in a snapshot file.

Source: `storage/internals/log/ProducerStateEntry.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.record_batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader, increment_sequence
from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset, ProducerEpoch, ProducerId

__all__ = [
    "BATCHES_TO_RETAIN",
    "MAXIMUM_SEQUENCE",
    "ProducerCopy",
    "ProducerEntry",
    "ProducerSnapshotEntry",
    "WrittenBatch",
]

BATCHES_TO_RETAIN: Final = 5
"""A client may have this many requests in flight, so a retry repeats one of the last five batches."""

MAXIMUM_SEQUENCE: Final = 0x7FFF_FFFF
_NONE: Final = -1


class WrittenBatch(NamedTuple):
    """A batch in the log."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: Millis

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record; sequences wrap at 2**31 - 1."""
        return increment_sequence(self.last_sequence, -self.offset_delta)

    @property
    def first_offset(self) -> Offset:
        """Offset of the first record."""
        return Offset(self.last_offset - self.offset_delta)


class ProducerSnapshotEntry(NamedTuple):
    """One producer in a snapshot file; -1 stands for none.

    A producer with several batches has an entry for each of them, oldest first; the last entry describes the producer.
    Apache Kafka writes only the last entry, and uses only the last one that it reads.
    """

    producer_id: ProducerId
    epoch: ProducerEpoch
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: Millis
    coordinator_epoch: int
    current_transaction_first_offset: Offset


class ProducerCopy(NamedTuple):
    """The state of one producer at one moment, which no longer changes."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    batches: tuple[WrittenBatch, ...]
    last_timestamp: Millis
    coordinator_epoch: int
    current_transaction_first_offset: Offset

    def snapshot_entries(self) -> Iterator[ProducerSnapshotEntry]:
        """Yields the producer's entries in a snapshot file."""
        none = Offset(_NONE)
        for batch in self.batches[:-1]:
            # Kafka leaves expired entries out, and must not take an earlier batch for the last one.
            timestamp = min(batch.timestamp, self.last_timestamp)
            yield self._entry(*batch._replace(timestamp=timestamp), none)
        last = self.batches[-1] if self.batches else WrittenBatch(NO_SEQUENCE, none, 0, self.last_timestamp)
        yield self._entry(*last._replace(timestamp=self.last_timestamp), self.current_transaction_first_offset)

    def _entry(
        self, sequence: int, offset: Offset, delta: int, timestamp: Millis, transaction_offset: Offset
    ) -> ProducerSnapshotEntry:
        return ProducerSnapshotEntry(
            self.producer_id, self.epoch, sequence, offset, delta, timestamp, self.coordinator_epoch, transaction_offset
        )


class ProducerEntry:
    """One producer's last batches, oldest first."""

    __slots__ = ("batches", "coordinator_epoch", "current_transaction_first_offset", "epoch", "last_timestamp")

    def __init__(self, epoch: ProducerEpoch = NO_PRODUCER_EPOCH) -> None:
        self.epoch = epoch
        self.batches: list[WrittenBatch] = []
        self.last_timestamp: Millis = NO_TIMESTAMP
        self.coordinator_epoch = _NONE
        self.current_transaction_first_offset = Offset(_NONE)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record written under the current epoch, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_write(self) -> tuple[int, int, int]:
        """Epoch, timestamp and offset of what the producer wrote last: the value differs after each write."""
        return self.epoch, self.last_timestamp, self.batches[-1].last_offset if self.batches else _NONE

    def find(self, header: BatchHeader) -> WrittenBatch | None:
        """Returns the one of the last five batches that this batch repeats, or None."""
        if header.producer_epoch == self.epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None

    def end_transaction(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Records a marker, which ends the producer's open transaction, if any."""
        if header.producer_epoch != self.epoch:
            self.batches.clear()
            self.epoch = header.producer_epoch
        self.last_timestamp = header.max_timestamp
        self.coordinator_epoch = marker.coordinator_epoch
        self.current_transaction_first_offset = Offset(_NONE)

    def add(self, header: BatchHeader, base_offset: Offset) -> None:
        """Records a batch that was written at `base_offset`."""
        if header.producer_epoch != self.epoch:
            self.batches.clear()
            self.epoch = header.producer_epoch
        delta = header.last_offset_delta
        sequence = header.base_sequence
        timestamp = header.max_timestamp
        batches = self.batches
        if len(batches) == BATCHES_TO_RETAIN:
            del batches[0]
        last_sequence = (sequence + delta) & MAXIMUM_SEQUENCE if sequence >= 0 else NO_SEQUENCE
        batches.append(WrittenBatch(last_sequence, Offset(base_offset + delta), delta, timestamp))
        self.last_timestamp = timestamp
