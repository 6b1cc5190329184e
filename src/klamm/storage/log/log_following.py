"""The log of a follower: appends what the leader sent, byte for byte, and finds where it diverges from the leader's.

Source: `UnifiedLog.appendAsFollower`, `AbstractFetcherThread.getOffsetTruncationState` and
`ReplicaFetcherThread.processPartitionData` of Apache Kafka 4.3 (KIP-101, KIP-595).
"""

from __future__ import annotations

import logging
from typing import Final

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import CONTROL_MASK, BatchHeader, CorruptRecord, batch_crc_is_valid, iterate_batches
from klamm.protocol.types import LeaderEpoch, Millis, Offset
from klamm.storage.atomic_file import sync_directory
from klamm.storage.log.gaps import note_copied_gaps, note_gap
from klamm.storage.log.log_appender import LogAppender
from klamm.storage.log.log_durability import LogDurability
from klamm.storage.log.log_leader_epochs import LogLeaderEpochs
from klamm.storage.log.log_producers import LogProducers
from klamm.storage.log.log_retention import LogRetention
from klamm.storage.log.log_state import LogState
from klamm.storage.log.log_sync import LogSync
from klamm.storage.log.log_transactions import LogTransactions
from klamm.storage.log.log_truncation import LogTruncation
from klamm.storage.recovery.producer_recovery import marker_of
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.damage import Damage
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import MAX_RELATIVE_OFFSET

__all__ = ["LogFollowing"]

_logger = logging.getLogger(__name__)

_PREFIX_BYTES: Final = 16
_NO_EPOCH: Final = -1


class LogFollowing:
    """What a follower does with one log."""

    __slots__ = (
        "_appender",
        "_durability",
        "_epochs",
        "_has_noted_gaps",
        "_log",
        "_producers",
        "_retention",
        "_sync",
        "_transactions",
        "_truncation",
    )

    def __init__(  # noqa: PLR0917 - one argument for each part that a follower's append touches
        self,
        log: LogState,
        sync: LogSync,
        epochs: LogLeaderEpochs,
        producers: LogProducers,
        transactions: LogTransactions,
        durability: LogDurability,
        appender: LogAppender,
        truncation: LogTruncation,
        retention: LogRetention,
    ) -> None:
        self._log = log
        self._sync = sync
        self._epochs = epochs
        self._producers = producers
        self._transactions = transactions
        self._durability = durability
        self._appender = appender
        self._truncation = truncation
        self._retention = retention
        self._has_noted_gaps = False

    def append(
        self,
        records: memoryview | bytes,
        now_ms: Millis,
        *,
        leader_epoch: LeaderEpoch | None = None,
        most_batches: int | None = None,
    ) -> int:
        """Appends batches as the leader sent them, and returns the number of bytes that were appended.

        `most_batches` limits the batches of a call: the caller passes the remaining bytes with the next one. A partial
        batch at the end is ignored. Offsets may have gaps, because the leader's log may be compacted. The high
        watermark stays where it is.

        `leader_epoch` is the epoch of the leader that sent the records. Batches from the first one of a newer epoch on
        are ignored: the sender was no longer the leader when it read them, so they need not continue this log.

        Raises `KafkaError`: CORRUPT_MESSAGE for a batch with a wrong CRC or without offsets, and for one of an older
        epoch than the batch before it, OFFSET_OUT_OF_RANGE for a batch below the log end offset, KAFKA_STORAGE_ERROR if
        the disk fails. The batches before that one are appended.
        """
        log = self._log
        self._producers.complete_rebuild()
        view = memoryview(records)
        done = count = 0
        try:
            for position, header in iterate_batches(view):
                if count == most_batches or (leader_epoch is not None and header.partition_leader_epoch > leader_epoch):
                    break
                if not batch_crc_is_valid(view, position, header):
                    raise CorruptRecord(f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
                self._check_order(header)
                if header.base_offset > log.log_end_offset:
                    self._pass_gap(header, now_ms)
                done = position + header.size_bytes
                self._append(view[position:done], header, now_ms)
                count += 1
        finally:
            if log.log_end_offset - self._sync.recovery_point >= log.config.flush_messages:
                self._durability.flush(now_ms)
        return done

    def _check_order(self, header: BatchHeader) -> None:
        """Checks what a recovery checks: otherwise the batch would be cut away after a crash (I1)."""
        end = self._log.log_end_offset
        if header.base_offset < end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the leader sent a batch at offset {header.base_offset}, and {self._log} ends at {end}",
            )
        if header.last_offset_delta < 0:
            raise CorruptRecord(f"the last offset delta of the batch at {header.base_offset} is negative")
        epoch, known = header.partition_leader_epoch, self._epochs.known
        if 0 <= epoch < known.latest_epoch:
            # The latest epoch may have been assigned here without a record.
            before = known.epoch_for_offset(Offset(end - 1))
            if epoch < before:
                raise CorruptRecord(
                    f"the batch at offset {header.base_offset} has leader epoch {epoch}, and follows one of {before}"
                )

    def _pass_gap(self, header: BatchHeader, now_ms: Millis) -> None:
        """Notes durably that the log may have gaps, before the first one: a recovery would take it for a lost batch."""
        log = self._log
        log.check_online()
        try:
            if not self._has_noted_gaps:
                note_copied_gaps(log.segments.directory)
                self._has_noted_gaps = True
            if header.last_offset - log.log_end_offset > MAX_RELATIVE_OFFSET:
                self._roll_behind_gap(header.base_offset, now_ms)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log} can't be written: {error}") from error

    def _roll_behind_gap(self, offset: Offset, now_ms: Millis) -> None:
        """Begins a segment at `offset`, because one at the log end offset can't hold the batch there. Raises OSError.

        Apache Kafka's cleaner leaves such gaps, in data that klamm has taken over.
        """
        log = self._log
        end, directory = log.log_end_offset, log.segments.directory
        note_gap(directory, end, offset, "the leader's log has no batches there")
        sync_directory(directory)
        log.log_end_offset = offset
        try:
            self._durability.roll(log.check_online(), now_ms)
        except OSError:
            log.log_end_offset = end
            raise

    def _append(self, batch: memoryview, header: BatchHeader, now_ms: Millis) -> None:
        log = self._log
        segment = log.check_online()
        last_offset = header.last_offset
        marker = None
        if header.producer_id >= 0 and header.attributes & CONTROL_MASK:
            marker = marker_of(batch)
        try:
            if not segment.has_read_indexes:
                self._appender.read_indexes(segment)
            if segment.should_roll(
                len(batch),
                last_offset,
                header.max_timestamp,
                now_ms=now_ms,
                max_segment_bytes=log.config.segment_bytes,
                max_segment_ms=log.config.max_segment_ms,
            ):
                segment = self._durability.roll(segment, now_ms)
            if marker is not None:
                self._transactions.load_index(segment)
            segment.append(bytes(batch[:_PREFIX_BYTES]), batch[_PREFIX_BYTES:], last_offset, header.max_timestamp)
        except (OSError, CorruptIndex, BadBatch, Damage) as error:
            self._appender.undo_append(segment, error)
        log.log_end_offset = header.next_offset
        epoch = header.partition_leader_epoch
        if epoch not in (self._epochs.known.latest_epoch, _NO_EPOCH):
            self._epochs.assign(epoch, header.base_offset)
        if header.producer_id >= 0:
            completed = self._producers.state.record(header, header.base_offset, marker)
            if completed is not None:
                self._transactions.end(segment, completed)

    def agreed_end(self, epoch: LeaderEpoch, end_offset: Offset) -> Offset:
        """Returns the offset up to which this log agrees with the leader's. The caller truncates the log there.

        `epoch` is the largest epoch in the leader's log that is not above the follower's latest epoch. `end_offset` is
        the offset at which this epoch ends there. Both logs are equal up to the end of the latest epoch that they
        share. If this log lacks the leader's epoch, the leader may diverge again at the next fetch.
        """
        log = self._log
        own_epoch, own_end = self._epochs.known.end_offset_for(epoch, log.log_end_offset)
        if own_epoch < 0:
            # No epoch is known here: only the leader's end offset says how far the logs can agree.
            target = min(end_offset, log.log_end_offset)
        elif own_epoch == epoch:
            target = min(own_end, end_offset)
        else:
            target = min(own_end, log.log_end_offset)
        if target < log.high_watermark:
            _logger.warning("%s is to be truncated to %d, below its high watermark %d", log, target, log.high_watermark)
        return Offset(max(target, 0))

    def restart_at(self, offset: Offset, now_ms: Millis) -> None:
        """Removes all records, and begins again at `offset`, which must be beyond the log end offset.

        Raises `KafkaError` KAFKA_STORAGE_ERROR, which leaves the log offline.
        """
        self._truncation.restart_at(offset, now_ms)

    def batch_across_start(self, records: memoryview | bytes, leader_epoch: LeaderEpoch) -> bytes | None:
        """Returns the first batch if this log is empty and its log start offset lies within that batch, otherwise None.

        The leader's log start offset may lie within a batch (DeleteRecords). A follower that begins there gets the
        whole batch, and passes it to `begin_with`.
        """
        end = self._log.log_end_offset
        if self._log.log_start_offset < end:
            return None
        view = memoryview(records)
        position, header = next(iterate_batches(view), (0, None))
        if header is None or not header.base_offset < end <= header.last_offset:
            return None
        if header.partition_leader_epoch > leader_epoch or not batch_crc_is_valid(view, position, header):
            return None  # `append` says what is wrong
        return bytes(view[position : position + header.size_bytes])

    def begin_with(self, batch: bytes, now_ms: Millis) -> None:
        """Lets the log begin with a batch of `batch_across_start`. Its log start offset stays where it is.

        Source: `Partition.appendRecordsToFollowerOrFutureReplica` (`UnexpectedAppendOffsetException`). Raises
        `KafkaError` KAFKA_STORAGE_ERROR: the log is empty as before, or offline.
        """
        log, start = self._log, self._log.log_start_offset
        _, header = next(iterate_batches(memoryview(batch)))
        self._truncation.begin_earlier(header.base_offset, now_ms)
        try:
            self.append(batch, now_ms)
        except KafkaError:
            if log.offline_reason is None:
                self._truncation.restart_at(start, now_ms)
            raise

    def raise_log_start_offset(self, offset: Offset) -> None:
        """Follows the leader's log start offset, as far as this log's high watermark has come."""
        self._retention.follow_log_start_offset(offset)
