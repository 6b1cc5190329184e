"""The transactions of one log: verification of producers, the last stable offset, and aborted transactions.

Source: `storage/internals/log/UnifiedLog.java`, `LocalLog.collectAbortedTransactions` of Apache Kafka 4.3 (KIP-98,
KIP-890).
"""

from __future__ import annotations

import logging

from klamm.core.log.ongoing_transactions import CompletedTransaction
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import CONTROL_MASK, BatchHeader
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId
from klamm.storage.log.log_state import LogState
from klamm.storage.recovery.producer_recovery import marker_of, rebuild_transaction_index
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.damage import Damage
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment
from klamm.storage.segment.transaction_index import AbortedTransaction

__all__ = ["LogTransactions"]

_logger = logging.getLogger(__name__)


class LogTransactions:
    """The transactions of one log, for producers and read_committed consumers.

    Producers use `begin_verification`, the appender uses `check_of_coordinator` and `end`, and consumers use the rest.
    """

    __slots__ = ("_log", "_producers")

    def __init__(self, log: LogState, producers: ProducerState) -> None:
        self._log = log
        self._producers = producers

    # -- before a batch is written -------------------------------------------------------------------------------------

    def begin_verification(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        sequence: int,
        *,
        adds_partitions: bool,
        now_ms: Millis,
    ) -> int:
        """Returns the guard for the first batch of a transaction.

        The batch may be appended once the transaction coordinator has confirmed that the partition is part of the
        transaction. NO_GUARD if the transaction has records here: then no confirmation is needed. `adds_partitions`:
        the coordinator is asked to add the partition (transaction version 2).

        Raises `KafkaError`: INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        self._log.check_online()
        return self._producers.begin_verification(
            producer_id, producer_epoch, sequence, adds_partitions=adds_partitions, now_ms=now_ms
        )

    def has_ongoing(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
        """Returns whether the producer has an open transaction in this log, under that epoch."""
        return self._producers.has_ongoing_transaction(producer_id, producer_epoch)

    def check_of_coordinator(
        self, header: BatchHeader, records: memoryview | bytes, guard: int, transaction_version: int
    ) -> EndTransactionMarker | None:
        """Checks a batch that a coordinator of this broker appends for a producer. Returns its marker, None if it has
        none.

        Raises `KafkaError`: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED.
        """
        if not header.attributes & CONTROL_MASK:
            self._producers.check_of_coordinator(header, guard)
            return None
        marker = marker_of(records)
        if marker is not None:
            self._producers.check_marker(header, marker, transaction_version)
        return marker

    # -- what was written ----------------------------------------------------------------------------------------------

    def end(self, segment: Segment, completed: CompletedTransaction) -> None:
        """Ends a transaction whose marker was appended. Never raises an error that would require undoing the append."""
        transactions = self._producers.transactions
        if completed.is_aborted:
            segment.transaction_index.append(AbortedTransaction.from_completed(completed, transactions))
        transactions.complete(completed, self._log.high_watermark)

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which every transaction is decided and its marker committed; without any, the high
        watermark."""
        transactions = self._producers.transactions
        high_watermark = self._log.high_watermark
        if not transactions:
            return high_watermark
        unstable = transactions.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        # The first records of the transaction may have been deleted meanwhile.
        return max(unstable, self._log.log_start_offset)

    @property
    def first_undecided_offset(self) -> Offset | None:
        """The first offset of the oldest transaction without a marker."""
        return self._producers.transactions.first_undecided_offset()

    def may_have_aborted(self, offset: Offset) -> bool:
        """Returns whether a transaction was aborted from the segment of `offset` on; also True while this is
        unknown."""
        segments = self._log.segments
        return any(
            segments[index].transaction_index.may_have_entries
            for index in range(segments.index_of(offset), len(segments))
        )

    def aborted_between(self, offset: Offset, upper_bound: Offset) -> list[AbortedTransaction]:
        """Returns the aborted transactions that have records from `offset` up to but without `upper_bound`.

        Raises `KafkaError` KAFKA_STORAGE_ERROR. Damaged batches, found while an index is rebuilt, take the log offline.
        """
        log = self._log
        segments = log.segments
        found: list[AbortedTransaction] = []
        try:
            for index in range(segments.index_of(offset), len(segments)):
                self.load_index(segments[index])
                some, is_complete = segments[index].transaction_index.collect(offset, upper_bound)
                found += some
                if is_complete:
                    break
        except Damage as damage:
            log.mark_offline(str(damage))
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_reason) from damage
        except (BadBatch, CorruptIndex, OSError) as error:
            # Without them a consumer would treat aborted records as committed.
            message = f"the aborted transactions of {log} can't be read: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
        return found

    def load_index(self, segment: Segment) -> None:
        """Reads the index if it is not in memory, and rebuilds it if it is damaged. Raises Damage, OSError."""
        try:
            segment.transaction_index.load()
        except CorruptIndex as error:
            _logger.warning("%s; it is rebuilt", error)
            log = self._log
            segments = list(log.segments)
            up_to = segments[: segments.index(segment) + 1]
            end = log.log_end_offset if len(up_to) == len(segments) else segments[len(up_to)].base_offset
            rebuild_transaction_index(up_to, log.segments.snapshots(), log.log_start_offset, end)
