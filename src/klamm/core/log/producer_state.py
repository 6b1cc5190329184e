"""What a log remembers of the producers that write to it: epochs, sequences, the last five batches, and where the
transaction began that they are in (KIP-98).

From this a retry is answered with the offsets of the batch that was already written, a gap is refused, and a producer
that was replaced is fenced. `ongoing_transactions.py` knows the undecided transactions,
`transaction_verification.py` decides which producer may begin one.

Source: `storage/internals/log/ProducerAppendInfo.java`, `ProducerStateEntry.java`, `ProducerStateManager.java` of
Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from klamm.core.log.ongoing_transactions import CompletedTransaction, OngoingTransactions
from klamm.core.log.transaction_checks import (
    check_epoch,
    check_first_of_transaction,
    check_marker,
    check_sequence_of_verified,
)
from klamm.core.log.transaction_verification import NO_GUARD, Verifications
from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import (
    CONTROL_MASK,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    BatchHeader,
    increment_sequence,
)
from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["BATCHES_TO_RETAIN", "ProducerEntry", "ProducerSnapshotEntry", "ProducerState", "WrittenBatch"]

BATCHES_TO_RETAIN: Final = 5
"""A client may have this many requests in flight, so a retry is of one of the last five batches."""

_MAXIMUM_SEQUENCE: Final = 0x7FFF_FFFF
_NONE: Final = -1
_MOST_REFUSED: Final = 1000


class WrittenBatch(NamedTuple):
    """A batch that is in the log."""

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
    """One producer as a snapshot file holds it; -1 stands for none. Of the five batches it has the last."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: Millis
    coordinator_epoch: int
    current_transaction_first_offset: Offset


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

    def find(self, header: BatchHeader) -> WrittenBatch | None:
        """The batch of the last five that this one repeats."""
        if header.producer_epoch == self.epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None

    def end_transaction(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Remembers the marker that ends what the producer has open, if anything."""
        if header.producer_epoch != self.epoch:
            self.batches.clear()
            self.epoch = header.producer_epoch
        self.last_timestamp = header.max_timestamp
        self.coordinator_epoch = marker.coordinator_epoch
        self.current_transaction_first_offset = Offset(_NONE)

    def add(self, header: BatchHeader, base_offset: Offset) -> None:
        """Remembers a batch that was written at `base_offset`."""
        if header.producer_epoch != self.epoch:
            self.batches.clear()
            self.epoch = header.producer_epoch
        delta = header.last_offset_delta
        sequence = header.base_sequence
        timestamp = header.max_timestamp
        batches = self.batches
        if len(batches) == BATCHES_TO_RETAIN:
            del batches[0]
        last_sequence = (sequence + delta) & _MAXIMUM_SEQUENCE if sequence >= 0 else NO_SEQUENCE
        batches.append(WrittenBatch(last_sequence, Offset(base_offset + delta), delta, timestamp))
        self.last_timestamp = timestamp


class ProducerState:
    """The producers of one log. `end_offset` is the first offset that it knows nothing of."""

    __slots__ = ("_expiration_ms", "_producers", "_refused", "end_offset", "transactions", "verifications")

    def __init__(self, expiration_ms: int, end_offset: Offset = Offset(0)) -> None:  # noqa: B008 - a NewType of int
        self._expiration_ms = expiration_ms
        self._producers: dict[int, ProducerEntry] = {}
        self._refused: dict[int, tuple[int, int]] = {}
        """Of unknown producers: epoch and sequence of the first batch that could not be written."""
        self.end_offset = end_offset
        self.transactions = OngoingTransactions()
        self.verifications = Verifications()

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[ProducerId, ProducerEntry]]:
        for producer_id, entry in self._producers.items():
            yield ProducerId(producer_id), entry

    def entries(self) -> list[tuple[int, ProducerEntry]]:
        """Everybody with their producer id, listed in one step: another thread than the log's may ask, too."""
        return list(self._producers.items())

    def get(self, producer_id: ProducerId) -> ProducerEntry | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def has_ongoing_transaction(self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool:
        """Whether the producer has a transaction open here, under that epoch."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.current_transaction_first_offset >= 0 and entry.epoch == epoch

    # -- before a batch is written -------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: ProducerId, epoch: ProducerEpoch, sequence: int, *, adds_partitions: bool, now_ms: Millis
    ) -> int:
        """What a batch of a transaction must be written with: a guard, if the transaction coordinator is to be asked
        first, or NO_GUARD for a transaction that is open here already.

        Raises `KafkaError` INVALID_PRODUCER_EPOCH.
        """
        check_epoch(self._producers.get(producer_id), producer_id, epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return NO_GUARD
        return self.verifications.begin(producer_id, epoch, sequence, adds_partitions=adds_partitions, now_ms=now_ms)

    def check(self, header: BatchHeader, guard: int = NO_GUARD) -> WrittenBatch | None:
        """Whether a client's batch may be written: None if so, the batch it repeats if it is a retry of one of the
        last five. `guard` is what `begin_verification` gave for it.

        A producer that is not known may begin anywhere: its records may have been deleted, or it idled past
        `producer.id.expiration.ms` (KIP-360). So Kafka 4 has no use for UNKNOWN_PRODUCER_ID here.
        Raises `KafkaError`: INVALID_PRODUCER_EPOCH for an epoch that is over, OUT_OF_ORDER_SEQUENCE_NUMBER for a gap,
        for a repetition that is not whole, and for a new epoch that doesn't begin at 0, INVALID_TXN_STATE for a batch
        of a transaction that was not verified, and for one outside of the transaction that its producer has open.
        """
        entry = self._producers.get(header.producer_id)
        is_transactional = header.attributes & TRANSACTIONAL_MASK
        if not is_transactional and entry is not None and entry.current_transaction_first_offset < 0:
            batches = entry.batches
            if (
                batches
                and header.base_sequence == batches[-1].last_sequence + 1
                and header.producer_epoch == entry.epoch
            ):
                return None  # The way of nearly every batch of an idempotent producer.
        if is_transactional:
            duplicate = None if entry is None else entry.find(header)
            if duplicate is not None:
                return duplicate
            self._check_transactional(entry, header, guard)
            check_sequence_of_verified(entry, header, self.verifications.get(header.producer_id))
        if entry is None:
            self._check_after_refusal(header)
            return None
        duplicate = _check_sequence(entry, header)
        if duplicate is None and not is_transactional:
            _check_outside_of_transaction(entry, header)
        return duplicate

    def check_of_coordinator(self, header: BatchHeader, guard: int = NO_GUARD) -> None:
        """Refuses a batch that a coordinator of this broker writes for a producer, without sequences.

        Raises `KafkaError`: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE.
        """
        entry = self._producers.get(header.producer_id)
        if header.attributes & TRANSACTIONAL_MASK:
            self._check_transactional(entry, header, guard)
        check_epoch(entry, header.producer_id, header.producer_epoch)
        if entry is not None and not header.attributes & TRANSACTIONAL_MASK:
            _check_outside_of_transaction(entry, header)

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int) -> None:
        """Refuses a marker that is out of date; see `transaction_checks.check_marker`."""
        entry = self._producers.get(header.producer_id)
        check_marker(entry, header.producer_id, header.producer_epoch, marker, transaction_version)

    def write_failed(self, header: BatchHeader) -> None:
        """Remembers a client's batch that the disk refused, if its producer is unknown.

        The batches behind it may be on their way already, and an unknown producer may begin anywhere. Without this
        they would be written, and the retry of the first one would be out of order for good. Apache Kafka has no such
        case: it gives up the whole log directory.
        """
        producer_id = header.producer_id
        if producer_id not in self._producers:
            epoch, sequence = self._refused.get(producer_id, (NO_PRODUCER_EPOCH, 0))
            is_earlier = header.producer_epoch == epoch and header.base_sequence < sequence
            if header.producer_epoch > epoch or is_earlier:
                self._refused[producer_id] = header.producer_epoch, header.base_sequence
            if len(self._refused) > _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]

    def _check_after_refusal(self, header: BatchHeader) -> None:
        epoch, sequence = self._refused.get(header.producer_id, (NO_PRODUCER_EPOCH, 0))
        if header.producer_epoch == epoch and header.base_sequence > sequence:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"out of order sequence number for producer {header.producer_id}: {header.base_sequence} (incoming), "
                f"{sequence} could not be written",
            )

    def _check_transactional(self, entry: ProducerEntry | None, header: BatchHeader, guard: int) -> None:
        producer_id = header.producer_id
        if not self.has_ongoing_transaction(producer_id, header.producer_epoch):
            check_first_of_transaction(entry, header, is_verified=self.verifications.holds(producer_id, guard))

    # -- what was written ----------------------------------------------------------------------------------------------

    def record(
        self, header: BatchHeader, base_offset: Offset, marker: EndTransactionMarker | None = None
    ) -> CompletedTransaction | None:
        """Remembers a batch that stands in the log at `base_offset`; only for batches that have a producer id.

        `marker` is what a control batch holds; without one nothing changes: a cleaner has emptied it. Nothing is
        checked: what is in the log was checked by the leader that wrote it.
        Returns the transaction that a marker ends, if it had records here. It counts as ongoing until it is handed to
        `transactions.complete`.
        """
        producer_id = header.producer_id
        attributes = header.attributes
        if attributes & CONTROL_MASK and marker is None:
            return None
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerEntry()
            self._refused.pop(producer_id, None)
        completed = None
        if marker is None:
            entry.add(header, base_offset)
            if not attributes & TRANSACTIONAL_MASK:
                return None
            if entry.current_transaction_first_offset < 0:
                entry.current_transaction_first_offset = base_offset
                self.transactions.begin(producer_id, base_offset)
        else:
            first_offset = entry.current_transaction_first_offset
            if first_offset >= 0:
                completed = CompletedTransaction(producer_id, first_offset, base_offset, not marker.is_commit)
            entry.end_transaction(header, marker)
        if attributes & TRANSACTIONAL_MASK and self.verifications:
            self.verifications.forget_written(header)
        return completed

    def forget_ongoing_transactions(self) -> None:
        """Takes none for open any more: for where the log lacks batches, which may have ended them.

        A transaction that goes on behind them is recorded again, from its next batch on.
        """
        for entry in self._producers.values():
            entry.current_transaction_first_offset = Offset(_NONE)
        self.transactions.forget_ongoing()

    def expire(self, now_ms: Millis) -> int:
        """Forgets producers that have not written for `producer.id.expiration.ms`; how many."""
        expired = [producer_id for producer_id, entry in self._producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        if self.verifications:
            self.verifications.expire(now_ms, self._expiration_ms)
        return len(expired)

    def _is_expired(self, entry: ProducerEntry, now_ms: Millis) -> bool:
        return entry.current_transaction_first_offset < 0 and now_ms - entry.last_timestamp >= self._expiration_ms

    def snapshot(self) -> list[ProducerSnapshotEntry]:
        """What a snapshot file at `end_offset` holds."""
        entries = []
        for producer_id, entry in self._producers.items():
            last = entry.batches[-1] if entry.batches else None
            entries.append(
                ProducerSnapshotEntry(
                    ProducerId(producer_id),
                    entry.epoch,
                    last.last_sequence if last else NO_SEQUENCE,
                    last.last_offset if last else Offset(_NONE),
                    last.offset_delta if last else 0,
                    entry.last_timestamp,
                    entry.coordinator_epoch,
                    entry.current_transaction_first_offset,
                )
            )
        return entries

    def load(self, entries: Iterable[ProducerSnapshotEntry], end_offset: Offset, now_ms: Millis) -> None:
        """Starts anew from a snapshot taken at `end_offset`, without those who expired meanwhile."""
        self._producers.clear()
        for entry in entries:
            producer = ProducerEntry(entry.epoch)
            producer.last_timestamp = entry.timestamp
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.current_transaction_first_offset = entry.current_transaction_first_offset
            if entry.last_offset >= 0:
                producer.batches.append(
                    WrittenBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
                )
            if not self._is_expired(producer, now_ms):
                self._producers[entry.producer_id] = producer
        self.transactions.load(
            (entry.current_transaction_first_offset, producer_id)
            for producer_id, entry in self
            if entry.current_transaction_first_offset >= 0
        )
        self.end_offset = end_offset

    def clear(self, end_offset: Offset) -> None:
        """Forgets everybody, and the verifications that are under way: what they are for may come in between batches
        that are there no more."""
        self._producers.clear()
        self._refused.clear()
        self.verifications.clear()
        self.transactions.clear()
        self.end_offset = end_offset


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> WrittenBatch | None:
    """None if the batch follows on what the producer wrote, the batch that it repeats if it does."""
    sequence = header.base_sequence
    if header.producer_epoch == entry.epoch:
        # Known without a batch of this epoch: Kafka counts from -1, so the sequence must begin at 0.
        last_sequence = entry.last_sequence
        if sequence == last_sequence + 1 or (sequence == 0 and last_sequence == _MAXIMUM_SEQUENCE):
            return None
        duplicate = entry.find(header)
        if duplicate is not None:
            return duplicate
        raise KafkaError(
            ErrorCode.out_of_order_sequence_number,
            f"out of order sequence number for producer {header.producer_id}: {sequence} (incoming), "
            f"{last_sequence} (current end sequence number)",
        )
    check_epoch(entry, header.producer_id, header.producer_epoch)
    if sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
        raise KafkaError(
            ErrorCode.out_of_order_sequence_number,
            f"invalid sequence number for new epoch of producer {header.producer_id}: {header.producer_epoch} "
            f"(request epoch), {sequence} (sequence number), {entry.epoch} (current producer epoch)",
        )
    return None


def _check_outside_of_transaction(entry: ProducerEntry, header: BatchHeader) -> None:
    if entry.current_transaction_first_offset >= 0:
        raise KafkaError(
            ErrorCode.invalid_txn_state,
            f"expected a transactional write from producer {header.producer_id}, whose transaction began at offset "
            f"{entry.current_transaction_first_offset}",
        )
