"""What a partition must hold: every batch that was written, as it was written, and what follows from them.

All of it is worked out anew from the list of batches whenever it is asked for, in the plainest way, so that it shares
no idea with the code that it judges.
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
    """The batch as a leader writes it: its first 16 bytes are the leader's."""
    return pack(">qii", base_offset, len(batch) - 12, leader_epoch) + batch[16:]


class Written(NamedTuple):
    """One batch in the log."""

    header: BatchHeader
    data: bytes
    is_commit: bool | None
    """What the marker says, if it is one."""

    @classmethod
    def of(cls, data: bytes) -> Written:
        """A batch that has its offsets."""
        header = read_batch_header(data)
        is_commit = None
        if header.is_control:
            marker = read_end_transaction_marker(decode_batch(data)[0])
            assert marker is not None
            is_commit = marker.is_commit
        return cls(header, data, is_commit)

    @property
    def records(self) -> list[Record]:
        """What it holds."""
        return decode_batch(self.data)


@dataclass(slots=True)
class Producer:
    """What a log knows of a producer."""

    epoch: int
    batches: list[Written] = field(default_factory=list)
    """All those of its epoch, oldest first."""
    last_timestamp: int = -1
    """That of its last batch, or of the last marker."""
    open_offsets: list[int] = field(default_factory=list)
    """Where the batches of its transaction begin, if one is open."""

    @property
    def first_open(self) -> int:
        """Where its transaction begins, if one is open."""
        return self.open_offsets[0] if self.open_offsets else -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].header.last_sequence if self.batches else -1


class Known(NamedTuple):
    """A transaction in this partition; without `marker` it is open."""

    producer_id: int
    offsets: tuple[int, ...]
    """Where its batches begin."""
    marker: int | None
    is_commit: bool

    @property
    def first_offset(self) -> int:
        return self.offsets[0]


class PartitionModel:
    """One partition, from its first batch on, whatever has been deleted since."""

    def __init__(self, config: TopicConfig, *, producer_id_expiration_ms: int) -> None:
        self.config = config
        self.is_compacted = config.compact
        self.batches: list[Written] = []
        self.start = 0
        """Where the log begins: DeleteRecords and retention raise it, and a crash may bring more back."""
        self.start_must_last = False
        """Whether the next start may begin at no other offset: the last life ended in order."""
        self.highest_start = 0
        """The highest it ever was: below it leader epochs may be forgotten."""
        self.assigned: tuple[int, int] | None = None
        """The leader epoch that is to come, and from where on."""
        self.must_last = 0
        """Up to here the log has said that the disk has it: no power failure takes it."""
        self.cleaned_below = 0
        """From here on no cleaner was."""
        self.cleanings: list[tuple[int, int]] = []
        """When each cleaning began, and up to which offset it went."""
        self.given_away = 0
        """Offsets below it are not given again, though no batch is there."""
        self.was_stable = 0
        """The highest last stable offset of all times: what a crash has made undecided again was decided up to here."""
        self.loaded_end = 0
        """Where the log ended when the process began to live."""
        self.newest_epochs: dict[int, int] = {}
        """The newest epoch that each producer has used, whether or not that was written."""
        self._lost: list[Written] = []
        """Batches that a power failure took from between others: of their leader epochs a log may still know."""
        self._expiration_ms = producer_id_expiration_ms
        self.may_start_at = 0
        """Where retention was about to have the log begin when a crash came, if that is above `start`."""
        self.may_end_at: int | None = None
        """Where the log was being cut when a crash came."""
        self.in_flight: bytes | None = None
        """What was being written when a crash came: it may be there, as a whole."""

    @property
    def end(self) -> int:
        return max(self.given_away, self.batches[-1].header.next_offset if self.batches else 0)

    def append(self, data: bytes) -> Written:
        """It was written."""
        written = Written.of(data)
        self.batches.append(written)
        return written

    def cut(self, end: int) -> None:
        """The log ends there now."""
        self.batches = [batch for batch in self.batches if batch.header.next_offset <= end]
        self._lost = [batch for batch in self._lost if batch.header.next_offset <= end]
        self.given_away = min(self.given_away, end)
        self.must_last = min(self.must_last, end)
        self.cleaned_below = min(self.cleaned_below, end)
        self.start = min(self.start, end)

    def raise_start(self, offset: int) -> None:
        """What is below is deleted."""
        self.start = max(self.start, offset)
        self.highest_start = max(self.highest_start, offset)

    def lose(self, start: int, end: int) -> None:
        """What was between is not there any more."""
        self.given_away = max(self.given_away, end)
        self._lost += self.batches_between(start, end)
        self.batches = [batch for batch in self.batches if not start <= batch.header.base_offset < end]

    def first_cleaned_ms(self, offset: int) -> int | None:
        """When the cleaner was at that offset first, at the earliest."""
        return next((began_ms for began_ms, end in self.cleanings if end > offset), None)

    @property
    def has_holes(self) -> bool:
        """Whether anything was lost from between."""
        return bool(self._lost)

    def batches_between(self, start: int, end: int) -> list[Written]:
        """The batches that begin there."""
        return [batch for batch in self.batches if start <= batch.header.base_offset < end]

    def batch_at(self, offset: int) -> Written | None:
        """The batch that holds an offset."""
        return next(
            (batch for batch in self.batches if batch.header.base_offset <= offset <= batch.header.last_offset), None
        )

    def producers(self) -> dict[int, Producer]:
        """What there is to know of each producer (I10)."""
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
        """Whether the producer has been idle for `producer.id.expiration.ms`: with a transaction open it never is."""
        return producer.first_open < 0 and now_ms - producer.last_timestamp >= self._expiration_ms

    def batches_may_be_forgotten(self, producer: Producer, now_ms: int) -> bool:
        """Whether a start may have left the producer out of a snapshot, as idle (Kafka's `loadFromSnapshot`). A marker
        behind the snapshot then brings back its epoch, without its sequences."""
        last_ms = producer.batches[-1].header.max_timestamp if producer.batches else now_ms
        return producer.first_open < 0 and now_ms - last_ms >= self._expiration_ms

    def leader_epochs(self) -> list[tuple[int, int]]:
        """All leader epochs since the first batch, each with the offset that it begins at (KIP-101)."""
        found: list[tuple[int, int]] = []
        for batch in sorted(self.batches + self._lost, key=lambda batch: batch.header.base_offset):
            if not found or batch.header.partition_leader_epoch > found[-1][0]:
                found.append((batch.header.partition_leader_epoch, batch.header.base_offset))
        if self.assigned is not None and (not found or self.assigned[0] > found[-1][0]):
            found.append(self.assigned)
        return found

    def transactions(self) -> list[Known]:
        """All transactions, in the order in which they began."""
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
        """Below it all is decided, and the decision committed (I11), as far as it can be told from the batches that are
        still `present`."""
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
        """What a read_committed consumer sees below `end`, which is a last stable offset (I11)."""
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
