"""I12 and I13 in the logs of partitions: which transaction each marker ends, and how the epochs of producers rise.

A record of a transaction tells its number: in topics the record's value does, in `__consumer_offsets` the offset is the
number. So the log of a partition has for each producer the records of one transaction, then their marker, then the
records of the next one. With transaction version 2 each transaction has its own epoch, and its markers have a higher
one (KIP-890).

Clients see only the effects of a misplaced marker, and only if they read at the right time. The logs show the marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.brokers.model import Model
from tests.simulation.brokers.transactions import Outcome, Transaction, Transactions
from tests.simulation.violation import Violation

from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.record_batch import BatchHeader, iterate_batches
from klamm.protocol.records import Record, decode_batch
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import Offset, TopicPartition
from klamm.runtime.record_serde import GroupRecordSerde

if TYPE_CHECKING:
    from klamm.storage.log.log import Log

__all__ = ["TransactionLogs"]


class _Producer(NamedTuple):
    """A producer with one of its epochs."""

    producer_id: int
    epoch: int


class _End(NamedTuple):
    """A marker that has ended a transaction."""

    is_commit: bool
    offset: int


class TransactionLogs:
    """What was found so far in the committed parts of the logs."""

    def __init__(self, model: Model, transactions: Transactions, producer_expiry_ms: int) -> None:
        self._model = model
        self._transactions = transactions
        self._producer_expiry_ms = producer_expiry_ms
        self._serde = GroupRecordSerde()
        self._positions: dict[TopicPartition, int] = {}
        self._open: dict[tuple[TopicPartition, int], Transaction] = {}
        """By partition and producer id, the transaction that has no marker yet."""
        self._epochs: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        """By partition and producer id, the last epoch and the time of its batch."""
        self._producers: dict[Transaction, _Producer] = {}
        """Which producer has written the records of a transaction."""
        self._ends: dict[Transaction, dict[TopicPartition, _End]] = {}

    def read(self, where: TopicPartition, log: Log) -> None:
        """Reads what was committed since the last call. Raises Violation."""
        end = log.high_watermark
        position = max(self._positions.get(where, 0), log.log_start_offset)
        while position < end:
            before = position
            part = log.read(Offset(position), 1_000_000, upper_bound=end, minimum_one_batch=True)
            for at, header in iterate_batches(part):
                if header.base_offset < position:
                    continue
                if header.has_producer_id and header.is_transactional:
                    self._check_batch(where, header, decode_batch(part, at))
                position = self._positions[where] = header.next_offset
            if position == before:
                break

    def _check_batch(self, where: TopicPartition, header: BatchHeader, records: Iterable[Record]) -> None:
        key = where, int(header.producer_id)
        last, last_ms = self._epochs.get(key, (-1, 0))
        # A log forgets an idle producer, and then accepts an old marker again, which ends nothing.
        is_forgotten = header.is_control and header.max_timestamp - last_ms >= self._producer_expiry_ms
        if header.producer_epoch < last and not (is_forgotten and key not in self._open):
            raise Violation(
                13,
                f"offset {header.base_offset} of {where} has epoch {header.producer_epoch} of producer {key[1]}, behind"
                f" {last}",
            )
        self._epochs[key] = header.producer_epoch, header.max_timestamp
        if not header.is_control:
            for transaction in self._of_records(where, header, records):
                self._continue(key, header, transaction)
            return
        (record,) = records
        marker = read_end_transaction_marker(record)
        opened = self._open.pop(key, None)
        if marker is not None and opened is not None:
            self._end(where, opened, header, _End(marker.is_commit, int(header.base_offset)))

    def _of_records(
        self, where: TopicPartition, header: BatchHeader, records: Iterable[Record]
    ) -> Iterator[Transaction]:
        """Yields the transaction that each record names."""
        partition = self._model.partitions.get(where)
        for record in records:
            if partition is None:
                decoded = self._serde.deserialize(record.key or b"", record.value)
                assert decoded is not None
                assert isinstance(decoded.value, OffsetCommitValue)
                transaction = self._transactions.get(decoded.value.offset)
            else:
                batch = None if record.value is None else partition.of_value.get(record.value)
                transaction = None if batch is None else batch.transaction
            if transaction is None:
                raise Violation(
                    13, f"offset {record.offset} of {where} is of no transaction of producer {header.producer_id}"
                )
            yield transaction

    def _continue(self, key: tuple[TopicPartition, int], header: BatchHeader, transaction: Transaction) -> None:
        """Checks a record of a transaction."""
        where, what = key[0], f"{transaction} goes on at offset {header.base_offset} of {key[0]}"
        end = self._ends.get(transaction, {}).get(where)
        if end is not None:
            raise Violation(13, f"{what}, and has ended at {end.offset}")
        other = self._open.setdefault(key, transaction)
        if other is not transaction:
            raise Violation(13, f"{what}, and {other} has no marker there")
        producer = _Producer(key[1], header.producer_epoch)
        known = self._producers.get(transaction)
        if known is None:
            self._check_epochs(transaction, producer)
            self._producers[transaction] = producer
        elif known != producer:
            raise Violation(13, f"{what} with {producer}, and has begun with {known}")

    def _check_epochs(self, transaction: Transaction, producer: _Producer) -> None:
        """Compares the epoch of a transaction with those of all other transactions of its producer."""
        for other, known in self._producers.items():
            if known.producer_id != producer.producer_id:
                continue
            first, second = sorted(((other.number, known.epoch), (transaction.number, producer.epoch)))
            least = first[1] + (transaction.version > 1)
            if second[1] < least:
                raise Violation(
                    13,
                    f"the epoch of producer {producer.producer_id} is {first[1]} in transaction {first[0]}, and"
                    f" {second[1]} in transaction {second[0]}",
                )

    def _end(self, where: TopicPartition, transaction: Transaction, header: BatchHeader, end: _End) -> None:
        """Checks the marker of a transaction."""
        outcome = "committed" if end.is_commit else "aborted"
        what = f"{transaction} is {outcome} at offset {end.offset} of {where}"
        epoch = self._producers[transaction].epoch
        if transaction.version > 1 and header.producer_epoch <= epoch:
            raise Violation(13, f"{what} with epoch {header.producer_epoch}, and its records have {epoch}")
        others = self._ends.setdefault(transaction, {})
        for elsewhere, other in others.items():
            if other.is_commit is not end.is_commit:
                raise Violation(12, f"{what}, and ends otherwise at offset {other.offset} of {elsewhere}")
        others[where] = end
        self._check_outcome(transaction, end, what)

    def _check_outcome(self, transaction: Transaction, end: _End, what: str) -> None:
        contradicting = (Outcome.OPEN, Outcome.ABORTED) if end.is_commit else (Outcome.COMMITTED,)
        if transaction.outcome in contradicting:
            raise Violation(13, f"{what}, and for its producer it is {transaction.outcome.value}")

    @property
    def lacks_markers(self) -> bool:
        """Whether a transaction that was committed for its producer has no marker behind its records yet."""
        return any(transaction.outcome is Outcome.COMMITTED for transaction in self._open.values())

    def check_outcomes(self) -> None:
        """Checks all markers once the producers know how their transactions have ended. Raises Violation."""
        for transaction, ends in self._ends.items():
            for where, end in ends.items():
                self._check_outcome(transaction, end, f"{transaction} has a marker at offset {end.offset} of {where}")
