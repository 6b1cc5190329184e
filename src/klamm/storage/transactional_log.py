"""What transactions add to a log: who may write under one, how far all is decided, and what was aborted.

Source: `storage/internals/log/UnifiedLog.java`, `LocalLog.collectAbortedTransactions` of Apache Kafka 4.3 (KIP-98,
KIP-890).
"""

from __future__ import annotations

import logging

from klamm.core.log.ongoing_transactions import CompletedTransaction
from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import CONTROL_MASK, BatchHeader
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId
from klamm.storage.batch_scan import BadBatch
from klamm.storage.damage import Damage
from klamm.storage.durable_log import DurableLog
from klamm.storage.index_file import CorruptIndex
from klamm.storage.producer_recovery import marker_of, rebuild_transaction_index
from klamm.storage.segment import Segment
from klamm.storage.transaction_index import AbortedTransaction

__all__ = ["TransactionalLog"]

logger = logging.getLogger(__name__)


class TransactionalLog(DurableLog):
    """A log as producers of transactions and read_committed consumers see it."""

    __slots__ = ()

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
        """The guard that a batch of a transaction is to be appended with once the transaction coordinator has said
        that the partition is part of it; NO_GUARD if the transaction has records here and nobody need be asked.

        `adds_partitions` says that the coordinator is asked to add the partition (transaction version 2).
        Raises `KafkaError`: INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        self._check_online()
        return self._producers.begin_verification(
            producer_id, producer_epoch, sequence, adds_partitions=adds_partitions, now_ms=now_ms
        )

    def has_ongoing_transaction(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
        """Whether the producer has a transaction open here, under that epoch."""
        return self._producers.has_ongoing_transaction(producer_id, producer_epoch)

    def _check_of_coordinator(
        self, header: BatchHeader, records: memoryview | bytes, guard: int, transaction_version: int
    ) -> EndTransactionMarker | None:
        """Refuses what a coordinator of this broker may not write for a producer; the marker in it, if it is one.

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

    def _end_transaction(self, segment: Segment, completed: CompletedTransaction) -> None:
        """A marker was written. Raises nothing that a caller would have to undo the append for."""
        transactions = self._producers.transactions
        if completed.is_aborted:
            segment.transaction_index.append(AbortedTransaction.from_completed(completed, transactions))
        transactions.complete(completed, self.high_watermark)

    @property
    def last_stable_offset(self) -> Offset:
        """Below it every transaction is decided, and the decision committed; without any, the high watermark."""
        transactions = self._producers.transactions
        high_watermark = self.high_watermark
        if not transactions:
            return high_watermark
        unstable = transactions.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        # Records of it may have been deleted meanwhile.
        return max(unstable, self.log_start_offset)

    @property
    def first_undecided_offset(self) -> Offset | None:
        """Where the oldest transaction begins that has no marker yet."""
        return self._producers.transactions.first_undecided_offset()

    def _may_have_aborted(self, offset: Offset) -> bool:
        """Whether anything was aborted from the segment of `offset` on; True as well where that can't be said yet."""
        segments = self._segments
        return any(
            segments[index].transaction_index.may_have_entries
            for index in range(segments.index_of(offset), len(segments))
        )

    def aborted_transactions_between(self, offset: Offset, upper_bound: Offset) -> list[AbortedTransaction]:
        """The aborted transactions that have records from `offset` up to but without `upper_bound`.

        Raises `KafkaError` KAFKA_STORAGE_ERROR; damaged batches, where an index is built anew, take the log offline.
        """
        segments = self._segments
        found: list[AbortedTransaction] = []
        try:
            for index in range(segments.index_of(offset), len(segments)):
                self._load_transaction_index(segments[index])
                some, is_complete = segments[index].transaction_index.collect(offset, upper_bound)
                found += some
                if is_complete:
                    break
        except Damage as damage:
            self.mark_offline(str(damage))
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline_reason) from damage
        except (BadBatch, CorruptIndex, OSError) as error:
            # Without them a consumer would take aborted records for committed ones.
            message = f"the aborted transactions of {self} can't be read: {error}"
            raise KafkaError(ErrorCode.kafka_storage_error, message) from error
        return found

    def _load_transaction_index(self, segment: Segment) -> None:
        """Reads the index if it is not in memory; builds it anew if it is no good. Raises Damage, OSError."""
        try:
            segment.transaction_index.load()
        except CorruptIndex as error:
            logger.warning("%s; it is built anew", error)
            segments = list(self._segments)
            up_to = segments[: segments.index(segment) + 1]
            end = self.log_end_offset if len(up_to) == len(segments) else segments[len(up_to)].base_offset
            rebuild_transaction_index(up_to, self._segments.snapshots(), self.log_start_offset, end)

    def expire_producers(self, now_ms: Millis) -> int:
        """Forgets producers that have not written for `producer.id.expiration.ms`; how many.

        Those with an open transaction stay: without them its marker would not be known for its end.
        """
        return self._producers.expire(now_ms)
