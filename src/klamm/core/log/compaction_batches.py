"""Decides what a cleaning does with each batch: whether its records are dropped, and whether it stays when empty.

Markers and tombstones are removed in two steps (KIP-534). The first cleaning that could drop them writes the delete
horizon into their batch: the time `delete.retention.ms` later. A cleaning after that time drops them. So a consumer
that reads from the beginning has that much time to see the deletion.

Source: `storage/internals/log/Cleaner.java` (`cleanInto`, `shouldRetainRecord`), `CleanedTransactionMetadata.java` of
Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["AbortedEntry", "BatchFate", "BatchJudge", "CleanedTransactions", "LastBatch"]

AbortedEntry: TypeAlias = tuple[ProducerId, Offset, Offset, Offset]
"""Producer id, first offset, last offset and last stable offset of an aborted transaction, as in the transaction
index."""


class LastBatch(NamedTuple):
    """A producer's last batch in a log: its last offset, -1 if there is only a marker, and its epoch."""

    last_offset: Offset
    producer_epoch: ProducerEpoch


class CleanedTransactions:
    """Tracks the transactions of a log while its batches are read in order.

    A marker may be dropped only if no batch of its transaction came before it. `aborted` are the entries of the
    transaction indexes for the offsets that are read.
    """

    __slots__ = ("_aborted", "_committed", "_ongoing", "_retained", "_upcoming")

    def __init__(self, aborted: Iterable[AbortedEntry]) -> None:
        self._upcoming = sorted(aborted, key=_first_offset_of, reverse=True)
        self._ongoing: dict[ProducerId, AbortedEntry] = {}
        self._aborted: set[ProducerId] = set()
        self._committed: set[ProducerId] = set()
        self._retained: list[AbortedEntry] = []

    def _begin_up_to(self, offset: Offset) -> None:
        upcoming = self._upcoming
        while upcoming and upcoming[-1][1] <= offset:
            entry = upcoming.pop()
            self._ongoing.setdefault(entry[0], entry)

    def on_batch(self, header: BatchHeader) -> bool:
        """Returns whether a data batch belongs to an aborted transaction, so that all its records can be dropped."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing:
            self._aborted.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def on_marker(self, header: BatchHeader, is_commit: bool | None) -> bool:
        """Returns whether a control batch may be dropped; `is_commit` is None for other control records, which stay."""
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if not header.records_count:
            return True  # an earlier cleaning removed its record
        if is_commit is None:
            return False
        if is_commit:
            is_empty = producer_id not in self._committed
            self._committed.discard(producer_id)
            return is_empty
        entry = self._ongoing.pop(producer_id, None)
        is_empty = producer_id not in self._aborted
        self._aborted.discard(producer_id)
        if entry is not None and not is_empty:
            self._retained.append(entry)
            return False
        return True

    def take_retained(self) -> list[AbortedEntry]:
        """Returns the aborted transactions that ended since the last call and still have batches.

        The transaction index of the cleaned segment must contain them.
        """
        retained, self._retained = self._retained, []
        return retained


class BatchFate(NamedTuple):
    """The decision for one batch.

    `drops_records`: all records are dropped; otherwise each record is checked (all records of a control batch stay).
    `stays_empty`: the header stays even if no record does.
    `begins_delete_horizon`: the batch is the marker of a transaction without records, and may be dropped later.
    """

    drops_records: bool
    stays_empty: bool
    begins_delete_horizon: bool


class BatchJudge:
    """Decides about the batches of one cleaning, in order.

    `last_batches` are the last batches of the producers that the log knows. They stay even if they are empty, since
    they contain their producer's last sequence and epoch.
    """

    __slots__ = ("_now_ms", "_transactions", "last_batches")

    def __init__(self, transactions: CleanedTransactions, now_ms: Millis) -> None:
        self.last_batches: Mapping[ProducerId, LastBatch] = {}
        self._transactions = transactions
        self._now_ms = now_ms

    def judge(self, header: BatchHeader, is_commit: bool | None, *, is_last: bool) -> BatchFate:
        """Decides about the next batch; `is_commit` as in `CleanedTransactions.on_marker`.

        `is_last`: the batch is the last one of a merged segment. It always stays, so that the segment still shows which
        offsets it covers. Kafka keeps only the last batch of a whole cleaning.
        """
        if header.is_control:
            can_go = self._transactions.on_marker(header, is_commit)
            drops_records = can_go and self.has_passed_horizon(header)
        else:
            can_go = drops_records = self._transactions.on_batch(header)
        return BatchFate(drops_records, is_last or self._is_last_of_producer(header), can_go and header.is_control)

    def has_passed_horizon(self, header: BatchHeader) -> bool:
        """Returns whether tombstones and markers of the batch may be dropped now."""
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if not header.has_producer_id:
            return False
        last = self.last_batches.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.producer_epoch


def _first_offset_of(entry: AbortedEntry) -> Offset:
    return entry[1]
