"""A log's state of its producers: epochs, sequences, the last five batches, and the start of an open transaction
(KIP-98).

With this state, a retry is answered with the offsets of the batch that was already written, a sequence gap is refused,
and a replaced producer is fenced. `ongoing_transactions.py` contains the undecided transactions, and
`transaction_verification.py` decides which producer may begin one.

Source: `storage/internals/log/ProducerAppendInfo.java`, `ProducerStateEntry.java`, `ProducerStateManager.java` of
Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from klamm.core.log.ongoing_transactions import CompletedTransaction, OngoingTransactions
from klamm.core.log.producer_entry import (
    BATCHES_TO_RETAIN,
    MAXIMUM_SEQUENCE,
    ProducerCopy,
    ProducerEntry,
    ProducerSnapshotEntry,
    WrittenBatch,
)
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
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["ProducerState"]

_NONE: Final = -1
_MOST_REFUSED: Final = 1000


class ProducerState:
    """The producers of one log. `end_offset` is the first offset that the state does not include."""

    __slots__ = ("_expiration_ms", "_producers", "_refused", "end_offset", "transactions", "verifications")

    def __init__(self, expiration_ms: int, end_offset: Offset = Offset(0)) -> None:  # noqa: B008 - a NewType of int
        self._expiration_ms = expiration_ms
        self._producers: dict[int, ProducerEntry] = {}
        self._refused: dict[int, tuple[int, int]] = {}
        """For unknown producers: epoch and sequence of the first batch that could not be written."""
        self.end_offset = end_offset
        self.transactions = OngoingTransactions()
        self.verifications = Verifications()

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[ProducerId, ProducerEntry]]:
        for producer_id, entry in self._producers.items():
            yield ProducerId(producer_id), entry

    def entries(self) -> list[tuple[int, ProducerEntry]]:
        """Returns all producers with their ids, copied in one step, so that any thread may call this.

        `items()` alone would not be one step: the garbage collector may run in the middle, and other threads with it.
        """
        return list(self._producers.copy().items())

    def get(self, producer_id: ProducerId) -> ProducerEntry | None:
        """Returns the state of a producer, or None."""
        return self._producers.get(producer_id)

    def has_ongoing_transaction(self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool:
        """Returns whether the producer has an open transaction in this log, under that epoch."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.current_transaction_first_offset >= 0 and entry.epoch == epoch

    # -- before a batch is written -------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: ProducerId, epoch: ProducerEpoch, sequence: int, *, adds_partitions: bool, now_ms: Millis
    ) -> int:
        """Returns the guard with which a transaction's batch must be written, after verification by the coordinator.

        Returns NO_GUARD if the transaction is already open in this log and needs no verification.
        Raises `KafkaError` INVALID_PRODUCER_EPOCH.
        """
        check_epoch(self._producers.get(producer_id), producer_id, epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return NO_GUARD
        return self.verifications.begin(producer_id, epoch, sequence, adds_partitions=adds_partitions, now_ms=now_ms)

    def check(self, header: BatchHeader, guard: int = NO_GUARD) -> WrittenBatch | None:
        """Checks a client's batch. Returns None if it may be written, or the earlier batch if it is a retry of it.

        `guard` is the result of `begin_verification` for the batch. An unknown producer may begin with any sequence:
        its records may have been deleted, or it was idle for `producer.id.expiration.ms` (KIP-360). So Kafka 4 does not
        use UNKNOWN_PRODUCER_ID here. Raises `KafkaError`: INVALID_PRODUCER_EPOCH for an old epoch,
        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap, for a partial repetition, and for a new epoch that doesn't begin at 0,
        INVALID_TXN_STATE for a batch of an unverified transaction, and for a batch outside of the producer's open
        transaction.
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
                return None  # The fast path for nearly every batch of an idempotent producer.
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
        """Refuses an invalid batch that a coordinator of this broker writes for a producer, without sequences.

        Raises `KafkaError`: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE.
        """
        entry = self._producers.get(header.producer_id)
        if header.attributes & TRANSACTIONAL_MASK:
            self._check_transactional(entry, header, guard)
        check_epoch(entry, header.producer_id, header.producer_epoch)
        if entry is not None and not header.attributes & TRANSACTIONAL_MASK:
            _check_outside_of_transaction(entry, header)

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int) -> None:
        """Refuses an outdated marker; see `transaction_checks.check_marker`."""
        entry = self._producers.get(header.producer_id)
        check_marker(entry, header.producer_id, header.producer_epoch, marker, transaction_version)

    def write_failed(self, header: BatchHeader) -> None:
        """Records a client's batch that could not be written, if its producer is unknown: the disk failed, or too few
        replicas were in sync.

        The following batches may already be in flight, and an unknown producer may begin with any sequence. Without
        this record they would be written, and each retry of the failed batch would be out of order. After a failure of
        the disk, Apache Kafka has no such case, because it takes the whole log directory offline.
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
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
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
        """Records a batch in the log at `base_offset`; only for batches with a producer id.

        `marker` is the marker in a control batch. A control batch without one was emptied by the cleaner, and changes
        nothing. Nothing is checked, because the leader checked the batch before it was written. Returns the transaction
        that a marker ends, if it has records in this log. The transaction counts as ongoing until it is passed to
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
        """Drops all open transactions, for a log with missing batches, which may have ended them.

        A transaction that continues after the missing batches is recorded again, from its next batch on.
        """
        for entry in self._producers.values():
            entry.current_transaction_first_offset = Offset(_NONE)
        self.transactions.forget_ongoing()

    def expire(self, now_ms: Millis) -> int:
        """Drops producers that have not written for `producer.id.expiration.ms`; returns how many."""
        if self.verifications:
            self.verifications.expire(now_ms, self._expiration_ms)
        expired = self.expired(now_ms)
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def expired(self, now_ms: Millis) -> dict[ProducerId, tuple[int, int, int]]:
        """Returns the producers that have not written for `producer.id.expiration.ms`, each with its `last_write`."""
        return {
            ProducerId(producer_id): entry.last_write
            for producer_id, entry in self._producers.items()
            if self._is_expired(entry, now_ms)
        }

    def forget(self, idle: Mapping[ProducerId, tuple[int, int, int]]) -> None:
        """Drops producers that were found by `expired`, except those that have written since."""
        for producer_id, last_write in idle.items():
            entry = self._producers.get(producer_id)
            if entry is not None and entry.last_write == last_write:
                del self._producers[producer_id]

    def _is_expired(self, entry: ProducerEntry, now_ms: Millis) -> bool:
        return entry.current_transaction_first_offset < 0 and now_ms - entry.last_timestamp >= self._expiration_ms

    def snapshot(self) -> list[ProducerCopy]:
        """Returns the content of a snapshot file at `end_offset`."""
        return [
            ProducerCopy(
                ProducerId(producer_id),
                entry.epoch,
                tuple(entry.batches),
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_transaction_first_offset,
            )
            for producer_id, entry in self._producers.items()
        ]

    def load(self, entries: Iterable[ProducerSnapshotEntry], end_offset: Offset) -> None:
        """Replaces the state with a snapshot taken at `end_offset`.

        Keeps the producers that have expired meanwhile: each may have written again above that offset.
        """
        self._producers.clear()
        for entry in entries:
            producer = self._producers.get(entry.producer_id)
            if producer is None or producer.epoch != entry.epoch:
                producer = self._producers[entry.producer_id] = ProducerEntry(entry.epoch)
            producer.last_timestamp = entry.timestamp
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.current_transaction_first_offset = entry.current_transaction_first_offset
            if entry.last_offset >= 0:
                producer.batches.append(
                    WrittenBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
                )
                del producer.batches[:-BATCHES_TO_RETAIN]
        self.transactions.load(
            (entry.current_transaction_first_offset, producer_id)
            for producer_id, entry in self
            if entry.current_transaction_first_offset >= 0
        )
        self.end_offset = end_offset

    def become(self, other: ProducerState) -> None:
        """Takes over the content of another state, which must not be used afterwards."""
        self._producers = other._producers
        self._refused = other._refused
        self.verifications = other.verifications
        self.transactions = other.transactions
        self.end_offset = other.end_offset

    def empty(self) -> ProducerState:
        """Returns an empty state with the same expiration."""
        return ProducerState(self._expiration_ms)

    def clear(self, end_offset: Offset) -> None:
        """Drops all producers, transactions and pending verifications, whose batches might follow lost ones."""
        self._producers.clear()
        self._refused.clear()
        self.verifications.clear()
        self.transactions.clear()
        self.end_offset = end_offset


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> WrittenBatch | None:
    """Returns None if the batch follows the producer's last batch, or the earlier batch if it is a retry of it."""
    sequence = header.base_sequence
    if header.producer_epoch == entry.epoch:
        # A known producer without a batch of this epoch: Kafka counts from -1, so the sequence must begin at 0.
        last_sequence = entry.last_sequence
        if sequence == last_sequence + 1 or (sequence == 0 and last_sequence == MAXIMUM_SEQUENCE):
            return None
        duplicate = entry.find(header)
        if duplicate is not None:
            return duplicate
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"out of order sequence number for producer {header.producer_id}: {sequence} (incoming), "
            f"{last_sequence} (current end sequence number)",
        )
    check_epoch(entry, header.producer_id, header.producer_epoch)
    if sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"invalid sequence number for new epoch of producer {header.producer_id}: {header.producer_epoch} "
            f"(request epoch), {sequence} (sequence number), {entry.epoch} (current producer epoch)",
        )
    return None


def _check_outside_of_transaction(entry: ProducerEntry, header: BatchHeader) -> None:
    if entry.current_transaction_first_offset >= 0:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"expected a transactional write from producer {header.producer_id}, whose transaction began at offset "
            f"{entry.current_transaction_first_offset}",
        )
