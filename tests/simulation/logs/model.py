"""The expected content of a partition: every written batch, and what follows from the batches.

Each result is computed from the list of batches on every call, in the plainest way. So the model shares no idea with
the code that it checks.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from struct import pack
from typing import NamedTuple

from klamm.config.topic_config import TopicConfig
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.record_batch import BatchHeader, read_batch_header
from klamm.protocol.records import Record, decode_batch

__all__ = ["Known", "PartitionModel", "Producer", "Written", "stamped"]


def stamped(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Returns the batch as a leader writes it: the leader sets its first 16 bytes."""
    return pack(">qii", base_offset, len(batch) - 12, leader_epoch) + batch[16:]


class Written(NamedTuple):
    """One batch in the log."""

    header: BatchHeader
    data: bytes
    is_commit: bool | None
    """Whether the marker commits; None if the batch is not a marker."""

    @classmethod
    def of(cls, data: bytes) -> Written:
        """Decodes a batch that has its offsets."""
        header = read_batch_header(data)
        is_commit = None
        if header.is_control:
            marker = read_end_transaction_marker(decode_batch(data)[0])
            assert marker is not None
            is_commit = marker.is_commit
        return cls(header, data, is_commit)

    @property
    def records(self) -> list[Record]:
        """The records of the batch."""
        return decode_batch(self.data)


@dataclass(slots=True)
class Producer:
    """The state of a producer in a log."""

    epoch: int
    batches: list[Written] = field(default_factory=list)
    """All batches of this epoch, oldest first."""
    last_timestamp: int = -1
    """The timestamp of the producer's last batch or marker."""
    open_offsets: list[int] = field(default_factory=list)
    """The base offsets of the batches in its open transaction."""

    @property
    def first_open(self) -> int:
        """The first offset of its open transaction; -1 without one."""
        return self.open_offsets[0] if self.open_offsets else -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].header.last_sequence if self.batches else -1


class Known(NamedTuple):
    """A transaction in this partition; it is open if `marker` is None."""

    producer_id: int
    offsets: tuple[int, ...]
    """The base offsets of its batches."""
    marker: int | None
    is_commit: bool

    @property
    def first_offset(self) -> int:
        return self.offsets[0]


class PartitionModel:
    """One partition from its first batch on, including all deleted batches."""

    def __init__(self, config: TopicConfig, *, producer_id_expiration_ms: int) -> None:
        self.config = config
        self.is_compacted = config.compact
        self.batches: list[Written] = []
        self.start = 0
        """The log start offset. DeleteRecords and retention raise it; a crash may lower it again."""
        self.start_must_last = False
        """Whether the log must begin at exactly this offset after the next start, because the last stop was clean."""
        self.highest_start = 0
        """The highest log start offset so far: the log may forget leader epochs below it."""
        self.assigned: tuple[int, int] | None = None
        """The assigned leader epoch and its first offset."""
        self.must_last = 0
        """The log has reported data below this offset as synced: no power failure removes them."""
        self.cleaned_below = 0
        """No cleaner has worked at or above this offset."""
        self.cleanings: list[tuple[int, int]] = []
        """The time when each cleaning began, and its end offset."""
        self.given_away = 0
        """Offsets below this one are not assigned again, even if no batch is there."""
        self.was_stable = 0
        """The highest last stable offset so far: below it everything was decided, even if a crash has undone the
        decision.
        """
        self.loaded_end = 0
        """The end of the log when the process started."""
        self.newest_epochs: dict[int, int] = {}
        """The newest epoch that each producer has used, written or not."""
        self._lost: list[Written] = []
        """Batches that a power failure removed from between others; a log may still know their leader epochs."""
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.may_start_at = 0
        """The log start that retention was about to set at a crash, if it is above `start`."""
        self.may_end_at: int | None = None
        """The offset to which the log was being truncated at a crash."""
        self.in_flight: bytes | None = None
        """The batch that was being written at a crash: the whole batch may be there."""

    @property
    def end(self) -> int:
        return max(self.given_away, self.batches[-1].header.next_offset if self.batches else 0)

    def append(self, data: bytes) -> Written:
        """Adds a written batch."""
        written = Written.of(data)
        self.batches.append(written)
        return written

    def cut(self, end: int) -> None:
        """Truncates the model to the new end of the log."""
        self.batches = [batch for batch in self.batches if batch.header.next_offset <= end]
        self._lost = [batch for batch in self._lost if batch.header.next_offset <= end]
        self.given_away = min(self.given_away, end)
        self.must_last = min(self.must_last, end)
        self.cleaned_below = min(self.cleaned_below, end)
        self.start = min(self.start, end)

    def raise_start(self, offset: int) -> None:
        """Raises the log start offset, because the records below it are deleted."""
        self.start = max(self.start, offset)
        self.highest_start = max(self.highest_start, offset)

    def lose(self, start: int, end: int) -> None:
        """Removes the batches between two offsets, because they are lost."""
        self.given_away = max(self.given_away, end)
        self._lost += self.batches_between(start, end)
        self.batches = [batch for batch in self.batches if not start <= batch.header.base_offset < end]

    def first_cleaned_ms(self, offset: int) -> int | None:
        """Returns the time of the first cleaning that may have reached this offset."""
        return next((began_ms for began_ms, end in self.cleanings if end > offset), None)

    @property
    def has_holes(self) -> bool:
        """Whether batches were lost from between other batches."""
        return bool(self._lost)

    def batches_between(self, start: int, end: int) -> list[Written]:
        """Returns the batches that begin between two offsets."""
        return [batch for batch in self.batches if start <= batch.header.base_offset < end]

    def batch_at(self, offset: int) -> Written | None:
        """Returns the batch that contains an offset."""
        return next(
            (batch for batch in self.batches if batch.header.base_offset <= offset <= batch.header.last_offset), None
        )

    def producers(self) -> dict[int, Producer]:
        """Returns the state of each producer (I10)."""
        found: dict[int, Producer] = {}
        for batch in self.batches:
            header = batch.header
            if header.producer_id < 0:
                continue
            known = found.setdefault(header.producer_id, Producer(header.producer_epoch))
            if known.epoch != header.producer_epoch:
                known.epoch = header.producer_epoch
                known.batches = []
            known.last_timestamp = header.max_timestamp
            if header.is_control:
                known.open_offsets = []
            else:
                known.batches.append(batch)
                if header.is_transactional:
                    known.open_offsets.append(header.base_offset)
        return found

    def may_be_forgotten(self, producer: Producer, now_ms: int) -> bool:
        """Returns whether the producer has been idle for `producer.id.expiration.ms`; a producer with an open
        transaction is never idle.
        """
        return producer.first_open < 0 and now_ms - producer.last_timestamp >= self.producer_id_expiration_ms

    def batches_may_be_forgotten(self, producer: Producer, now_ms: int) -> bool:
        """Returns whether a start may have left an idle producer out of a snapshot (Kafka's `loadFromSnapshot`). A
        marker after the snapshot then restores its epoch, but not its sequences.
        """
        last_ms = producer.batches[-1].header.max_timestamp if producer.batches else now_ms
        return producer.first_open < 0 and now_ms - last_ms >= self.producer_id_expiration_ms

    def leader_epochs(self) -> list[tuple[int, int]]:
        """Returns all leader epochs since the first batch, each with its first offset (KIP-101)."""
        found: list[tuple[int, int]] = []
        for batch in sorted(self.batches + self._lost, key=lambda batch: batch.header.base_offset):
            if not found or batch.header.partition_leader_epoch > found[-1][0]:
                found.append((batch.header.partition_leader_epoch, batch.header.base_offset))
        if self.assigned is not None and (not found or self.assigned[0] > found[-1][0]):
            found.append(self.assigned)
        return found

    def transactions(self) -> list[Known]:
        """Returns all transactions, in the order of their first offsets."""
        found: list[Known] = []
        open_batches: dict[int, list[int]] = {}
        for batch in self.batches:
            header = batch.header
            if not header.is_transactional:
                continue
            if not header.is_control:
                open_batches.setdefault(header.producer_id, []).append(header.base_offset)
            elif header.producer_id in open_batches:
                offsets = tuple(open_batches.pop(header.producer_id))
                found.append(Known(header.producer_id, offsets, header.base_offset, bool(batch.is_commit)))
        found += [Known(producer_id, tuple(offsets), None, False) for producer_id, offsets in open_batches.items()]
        return sorted(found, key=lambda known: known.first_offset)

    def last_stable_offset(self, high_watermark: int, present: Container[int] | None = None) -> int:
        """Returns the offset below which every transaction is decided and its marker committed (I11), as far as the
        batches that are still `present` show it.
        """
        return min(
            (
                offset
                for known in self.transactions()
                for offset in known.offsets
                if (known.marker is None or known.marker >= high_watermark) and (present is None or offset in present)
            ),
            default=high_watermark,
        )

    def committed(self, end: int) -> Iterator[Record]:
        """Yields the records that a read_committed consumer gets below `end`, which is a last stable offset (I11)."""
        aborted = [known for known in self.transactions() if not known.is_commit]
        for batch in self.batches:
            header = batch.header
            if header.is_control or header.base_offset >= end:
                continue
            if header.is_transactional and any(
                known.producer_id == header.producer_id
                and known.first_offset <= header.base_offset
                and (known.marker is None or header.base_offset < known.marker)
                for known in aborted
            ):
                continue
            yield from batch.records
