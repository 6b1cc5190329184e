"""Appends to a log as its leader, and undoes an append that failed.

Source: `UnifiedLog.append`, `analyzeAndValidateRecords` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple, NoReturn

from klamm.core.log.batch_opening import (
    LOG_APPEND_TIME,
    BatchOpening,
    is_stored_as_it_came,
    must_be_opened,
    needs_new_header,
    open_now,
    with_new_header,
)
from klamm.core.log.batch_validation import check_batch, read_single_batch
from klamm.core.log.producer_state import ProducerState
from klamm.core.log.transaction_verification import NO_GUARD
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, read_batch_header
from klamm.protocol.types import NO_TIMESTAMP, LeaderEpoch, Millis, Offset
from klamm.storage.log.log_durability import LogDurability
from klamm.storage.log.log_leader_epochs import LogLeaderEpochs
from klamm.storage.log.log_state import LogState
from klamm.storage.log.log_sync import LogSync
from klamm.storage.log.log_transactions import LogTransactions
from klamm.storage.recovery.index_recovery import rebuild_for_reading, rebuild_or_fail
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.damage import Damage
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment

__all__ = ["AppendInfo", "LogAppender"]

_logger = logging.getLogger(__name__)

_PREFIX: Final = Struct(">qii")
_PREFIX_BYTES: Final = 16


class AppendInfo(NamedTuple):
    """The offsets and timestamps of an appended batch.

    `log_append_time_ms` is -1 unless the topic uses LogAppendTime. As in Kafka, it is the largest timestamp of the
    original batch if the appended batch is a duplicate.
    """

    first_offset: Offset
    last_offset: Offset
    log_append_time_ms: Millis
    log_start_offset: Offset
    is_duplicate: bool


class LogAppender:
    """Writes batches to the end of one log, and raises its log end offset."""

    __slots__ = ("_durability", "_epochs", "_log", "_producers", "_segments", "_sync", "_transactions")

    def __init__(  # noqa: PLR0917 - one argument for each part that an append touches
        self,
        log: LogState,
        sync: LogSync,
        epochs: LogLeaderEpochs,
        producers: ProducerState,
        transactions: LogTransactions,
        durability: LogDurability,
    ) -> None:
        self._log = log
        self._segments = log.segments
        self._sync = sync
        self._epochs = epochs
        self._producers = producers
        self._transactions = transactions
        self._durability = durability

    def note_refused(self, records: memoryview | bytes) -> None:
        """Notes a client's batch that is refused although it may be written later; see `ProducerState.write_failed`."""
        if len(records) >= HEADER_SIZE_BYTES:
            with suppress(KafkaError):  # of another format
                header = read_batch_header(records)
                if header.has_producer_id and not header.is_control:
                    self._producers.write_failed(header)

    def append_as_leader(  # noqa: PLR0912 - the way of every batch: calls would cost
        self,
        records: memoryview | bytes,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: Millis,
        from_client: bool = True,
        verification_guard: int = NO_GUARD,
        transaction_version: int = 0,
        open_batch: Callable[[BatchOpening], memoryview] = open_now,
    ) -> AppendInfo:
        """Checks a batch, assigns its offsets and writes it. A duplicate of an earlier batch is not written again.

        `from_client` is False for batches of the broker's coordinators. `verification_guard` comes from
        `begin_verification`, for the first batch of a transaction; `transaction_version` is that of a marker.
        `open_batch` returns the batch to store if the header alone does not decide it. An exception from `open_batch`
        ends the append before anything has changed. The bytes are not copied.

        Raises `KafkaError`: the errors of `validation.check_batch`, `BatchOpening` and the checks of `ProducerState`,
        RECORD_LIST_TOO_LARGE for more than `segment.bytes`, KAFKA_STORAGE_ERROR if the disk fails: the log is then as
        before.
        """
        log = self._log
        segment = self._segments.active
        if log.offline_reason is not None or segment is None:
            segment = log.check_online()
        config = log.config
        header = read_single_batch(records)
        check_batch(records, header, config, from_client)
        if not is_stored_as_it_came(header, config, now_ms, from_client):
            if must_be_opened(header, config, now_ms, from_client):
                records = open_batch(BatchOpening(records, header, config, now_ms, log.topic_partition, from_client))
            elif needs_new_header(header, config):
                records = with_new_header(records, header, config, now_ms)
            header = read_batch_header(records)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the record batch of {size} bytes exceeds the maximum configured segment size of "
                f"{config.segment_bytes} (segment.bytes)",
            )
        is_idempotent = header.producer_id >= 0
        marker = None
        if is_idempotent:
            if from_client:
                duplicate = self._producers.check(header, verification_guard)
                if duplicate is not None:
                    return AppendInfo(
                        duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, log.log_start_offset, True
                    )
            else:
                marker = self._transactions.check_of_coordinator(
                    header, records, verification_guard, transaction_version
                )
        base_offset = log.log_end_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        max_timestamp = header.max_timestamp
        try:
            if not segment.has_read_indexes:
                self.read_indexes(segment)
            if segment.should_roll(
                size,
                last_offset,
                max_timestamp,
                now_ms=now_ms,
                max_segment_bytes=config.segment_bytes,
                max_segment_ms=config.max_segment_ms,
            ):
                segment = self._durability.roll(segment, now_ms)
            if marker is not None:
                self._transactions.load_index(segment)
            segment.append(
                _PREFIX.pack(base_offset, header.batch_length, leader_epoch),
                memoryview(records)[_PREFIX_BYTES:size],
                last_offset,
                max_timestamp,
            )
        except (OSError, CorruptIndex, BadBatch, Damage) as error:
            if is_idempotent and from_client:
                self._producers.write_failed(header)
            self.undo_append(segment, error)
        next_offset = Offset(last_offset + 1)
        log.log_end_offset = next_offset
        if leader_epoch != self._epochs.known.latest_epoch:
            self._epochs.assign(leader_epoch, base_offset)
        if is_idempotent:
            completed = self._producers.record(header, base_offset, marker)
            if completed is not None:
                self._transactions.end(segment, completed)
        if next_offset - self._sync.recovery_point >= config.flush_messages:
            self._durability.flush(now_ms)
        return AppendInfo(
            base_offset,
            last_offset,
            now_ms if config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP,
            log.log_start_offset,
            False,
        )

    def read_indexes(self, segment: Segment) -> None:
        """Reads the indexes before the first append to a segment found at start, and rebuilds damaged ones.

        Raises Damage, OSError.
        """
        try:
            segment.read_indexes()
        except CorruptIndex as error:
            _logger.warning("%s; it is rebuilt", error)
            rebuild_for_reading(segment)

    def undo_append(self, segment: Segment, error: Exception) -> NoReturn:
        """Removes the remains of a failed write, and raises the error for the response.

        If that fails, too, or if the segment is damaged, the log goes offline: nothing may be appended after the
        damage.
        """
        log = self._log
        log.note_failed_write()
        try:
            if isinstance(error, Damage):
                raise error
            if isinstance(error, CorruptIndex | BadBatch):
                rebuild_or_fail(segment)
            segment.offset_index.truncate_to(log.log_end_offset)
            segment.cut_back()
        except Damage as damage:
            log.mark_offline(str(damage))
        except (OSError, CorruptIndex, BadBatch) as second_error:
            log.mark_offline(f"{segment.path} can't be cut back after a failed write ({error}): {second_error}")
        else:
            _logger.error("an append to %s failed, nothing was written: %s", log, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log} can't be written: {error}") from error
