"""The log of one partition: append, read, look up, delete; the only way to a partition's records.

All of it is synchronous and belongs to one thread, the broker's loop; only syncing may be done on another.
Every refusal is a `KafkaError` with the code that goes into the answer.

Source: `storage/internals/log/UnifiedLog.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeAlias, TypeVar

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
from klamm.core.log.leader_epoch import EpochEntry
from klamm.core.log.retention import plan_deletion
from klamm.core.log.timestamp_lookup import BatchLookup, TimestampedOffset
from klamm.core.log.transaction_verification import NO_GUARD
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import LOG_OVERHEAD_BYTES, read_batch_header
from klamm.protocol.types import NO_TIMESTAMP, LeaderEpoch, Millis, Offset, TopicId, TopicPartition
from klamm.storage.batch_scan import BadBatch
from klamm.storage.compactable_log import CompactableLog
from klamm.storage.damage import Damage
from klamm.storage.index_file import CorruptIndex
from klamm.storage.index_recovery import rebuild_for_reading, rebuild_or_fail
from klamm.storage.loaded_log import LoadedLog
from klamm.storage.log_reader import FileRange, LogReader
from klamm.storage.producer_recovery import rebuild_producer_state
from klamm.storage.segment import Segment
from klamm.storage.stored_batches import StoredBatches

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig
    from klamm.storage.log_services import LogServices
    from klamm.storage.transaction_index import AbortedTransaction

__all__ = ["AppendInfo", "Log", "TimestampSearch"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

TimestampSearch: TypeAlias = "Generator[BatchLookup | None, TimestampedOffset | None, TimestampedOffset | None]"
"""A search of a log by time. It yields each batch that is to be looked through and wants to be sent what was found
there, and None where others may have their turn; between two steps the log may change. It returns timestamp, offset and
leader epoch of the record, None if there is none."""

MAXIMUM_FRUITLESS_LOOKUPS: Final = 16
"""A batch may hold no record of the time that its header claims: the one that a search begins in, and those of a
producer that lies. After so many, a search believes the header, and answers with the beginning of the batch."""

_PREFIX: Final = Struct(">qii")
_PREFIX_BYTES: Final = 16


class AppendInfo(NamedTuple):
    """Where a batch stands in the log.

    `log_append_time_ms` is -1 unless the topic's timestamps are of that type (or, as in Kafka, the batch is a
    duplicate: then it is the largest timestamp of the one that is there).
    """

    first_offset: Offset
    last_offset: Offset
    log_append_time_ms: Millis
    log_start_offset: Offset
    is_duplicate: bool


class Log(CompactableLog):
    """One partition's records, from `log_start_offset` up to but without `log_end_offset`."""

    __slots__ = ("_reader",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        services: LogServices,
        loaded: LoadedLog,
        *,
        now_ms: Millis,
        has_new_names: bool = False,
    ) -> None:
        super().__init__(
            topic_partition, topic_id, config, services, loaded, now_ms=now_ms, has_new_names=has_new_names
        )
        self._reader = LogReader(self._segments)

    # -- append --------------------------------------------------------------------------------------------------------

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
        """Checks a batch, gives it offsets and writes it; a batch that a producer sent before is not written again.

        `from_client` is False for what the broker's coordinators write. `verification_guard` comes from
        `begin_verification`, for the first batch of a transaction; `transaction_version` is that of a marker.
        `open_batch` is asked for the batch as it is to be stored where its header does not tell; what it raises ends
        the append before anything has changed. The bytes are not copied.
        Raises `KafkaError`: what `validation.check_batch`, `BatchOpening` and the checks of `ProducerState` raise,
        RECORD_LIST_TOO_LARGE for more than `segment.bytes`, KAFKA_STORAGE_ERROR when the disk refuses: the log is then
        as it was before.
        """
        segment = self._segments.active
        if self.offline_reason is not None or segment is None:
            segment = self._check_online()
        config = self.config
        header = read_single_batch(records)
        check_batch(records, header, config, from_client)
        if not is_stored_as_it_came(header, config, now_ms, from_client):
            if must_be_opened(header, config, now_ms, from_client):
                records = open_batch(BatchOpening(records, header, config, now_ms, self.topic_partition, from_client))
            elif needs_new_header(header, config):
                records = with_new_header(records, header, config, now_ms)
            header = read_batch_header(records)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.record_list_too_large,
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
                        duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, self.log_start_offset, True
                    )
            else:
                marker = self._check_of_coordinator(header, records, verification_guard, transaction_version)
        base_offset = self.log_end_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        max_timestamp = header.max_timestamp
        try:
            if not segment.has_read_indexes:
                self._read_indexes(segment)
            if segment.should_roll(
                size,
                last_offset,
                max_timestamp,
                now_ms=now_ms,
                max_segment_bytes=config.segment_bytes,
                max_segment_ms=config.max_segment_ms,
            ):
                segment = self._roll(segment, now_ms)
            if marker is not None:
                self._load_transaction_index(segment)
            segment.append(
                _PREFIX.pack(base_offset, header.batch_length, leader_epoch),
                memoryview(records)[_PREFIX_BYTES:size],
                last_offset,
                max_timestamp,
            )
        except (OSError, CorruptIndex, BadBatch, Damage) as error:
            if is_idempotent and from_client:
                self._producers.write_failed(header)
            self._undo_append(segment, error)
        next_offset = Offset(last_offset + 1)
        self.log_end_offset = next_offset
        if leader_epoch != self._epochs.latest_epoch and self._epochs.assign(leader_epoch, base_offset):
            self._epochs_changed = True
        if is_idempotent:
            completed = self._producers.record(header, base_offset, marker)
            if completed is not None:
                self._end_transaction(segment, completed)
        if next_offset - self._sync.recovery_point >= config.flush_messages:
            self.flush(now_ms)
        return AppendInfo(
            base_offset,
            last_offset,
            now_ms if config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP,
            self.log_start_offset,
            False,
        )

    def _read_indexes(self, segment: Segment) -> None:
        """Reads the indexes before the first append to a segment that a start found, and rebuilds damaged ones.

        Raises Damage, OSError.
        """
        try:
            segment.read_indexes()
        except CorruptIndex as error:
            logger.warning("%s; it is built anew", error)
            rebuild_for_reading(segment)

    def _undo_append(self, segment: Segment, error: Exception) -> NoReturn:
        """Takes back what a failed write left. Where even that fails, and where the segment is damaged, nobody may
        write behind it: offline."""
        try:
            if isinstance(error, Damage):
                raise error
            if isinstance(error, CorruptIndex | BadBatch):
                rebuild_or_fail(segment)
            segment.offset_index.truncate_to(self.log_end_offset)
            segment.cut_back()
        except Damage as damage:
            self.mark_offline(str(damage))
        except (OSError, CorruptIndex, BadBatch) as second_error:
            self.mark_offline(f"{segment.path} can't be cut back after a failed write ({error}): {second_error}")
        else:
            logger.error("an append to %s failed, nothing was written: %s", self, error)
        raise KafkaError(ErrorCode.kafka_storage_error, f"{self} can't be written: {error}") from error

    # -- read ----------------------------------------------------------------------------------------------------------

    def read(
        self, offset: Offset, max_bytes: int, *, upper_bound: Offset, minimum_one_batch: bool
    ) -> bytes | memoryview:
        """Whole batches from the one that holds `offset` on, below `upper_bound` (the high watermark, the last stable
        offset or the log end offset), at most `max_bytes` of them.

        With `minimum_one_batch` the first is given even if it is larger; without it, nothing if it is. Empty at or
        beyond `upper_bound`.
        Raises `KafkaError`: OFFSET_OUT_OF_RANGE outside the log, KAFKA_STORAGE_ERROR when it can't be read, or when
        the file is damaged there, which takes the log offline.
        """
        batches = self._read(offset, max_bytes, upper_bound, minimum_one_batch, to_send=False)
        assert not isinstance(batches, StoredBatches)
        return batches

    def read_to_send(
        self, offset: Offset, max_bytes: int, *, upper_bound: Offset, minimum_one_batch: bool
    ) -> bytes | memoryview | StoredBatches:
        """Reads as `read` does, but leaves many batches in the file if their CRCs need no check.

        The caller sends them from there.
        """
        return self._read(offset, max_bytes, upper_bound, minimum_one_batch, to_send=True)

    def _read(
        self, offset: Offset, max_bytes: int, upper_bound: Offset, minimum_one_batch: bool, *, to_send: bool
    ) -> bytes | memoryview | StoredBatches:
        if self.offline_reason is not None or self._segments.active is None:
            self._check_online()
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"offset {offset} is not within {self.log_start_offset} to {log_end_offset} of {self}",
            )
        try:
            return self._reader.read(
                offset,
                max_bytes,
                upper_bound=upper_bound,
                log_end_offset=log_end_offset,
                minimum_one_batch=minimum_one_batch,
                to_send=to_send,
            )
        except (Damage, CorruptIndex, OSError) as error:
            self._handle_read_error(error)
        return self._read(offset, max_bytes, upper_bound, minimum_one_batch, to_send=to_send)

    def file_ranges(self, offset: Offset, max_bytes: int) -> list[FileRange]:
        """Where the `max_bytes` from `offset` on lie, for whoever wants to have them in memory before they are read.

        Nothing outside the log, and nothing where the log can't be read: the read that comes will say why.
        """
        if self.offline_reason is not None or self._segments.active is None:
            return []
        if not self.log_start_offset <= offset < self.log_end_offset:
            return []
        try:
            return self._reader.file_ranges(offset, max_bytes)
        except (Damage, CorruptIndex, OSError):
            return []

    def aborted_transactions(self, offset: Offset, size_bytes: int) -> list[AbortedTransaction]:
        """The aborted transactions that a read_committed consumer must know of which reads `size_bytes` at `offset`, in
        the order of their markers.

        As in Kafka there may be some more, of records that follow soon. Raises `KafkaError` as `read`.
        """
        self._check_online()
        if not self._may_have_aborted(offset):
            return []
        upper_bound = self._look_up(lambda: self._reader.upper_bound(offset, size_bytes, self.log_end_offset))
        return self.aborted_transactions_between(offset, upper_bound)

    def _handle_read_error(self, error: Exception) -> None:
        """Raises the answer's error, unless an index was bad and is good now: then the reader asks again.

        Damaged batches take the log offline: nobody is to build on what is not what was written.
        """
        if isinstance(error, CorruptIndex):
            logger.warning("%s; it is built anew", error)
            try:
                for segment in self._segments:
                    if segment.base_offset == error.base_offset:
                        rebuild_for_reading(segment)
            except (Damage, OSError) as second_error:
                error = second_error
            else:
                return
        if isinstance(error, Damage):
            self.mark_offline(str(error))
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline_reason) from error
        raise KafkaError(ErrorCode.kafka_storage_error, f"{self} can't be read: {error}") from error

    def _look_up(self, search: Callable[[], T]) -> T:
        self._check_online()
        while True:
            try:
                return search()
            except (Damage, CorruptIndex, OSError) as error:
                self._handle_read_error(error)

    def search_timestamp(self, timestamp_ms: Millis) -> TimestampSearch:
        """Looks for the first record that is no older.

        Raises `KafkaError` as `read`.
        """
        offset = self.log_start_offset
        fruitless = 0
        while True:
            batch = self._look_up(partial(self._reader.find_young_batch, timestamp_ms, offset))
            if batch is None:
                return None
            if not isinstance(batch, BatchLookup):
                offset = batch
                yield None
                continue
            header = batch.header
            if fruitless == MAXIMUM_FRUITLESS_LOOKUPS:
                return header.max_timestamp, max(header.base_offset, offset), header.partition_leader_epoch
            found = yield batch
            if found is not None:
                return found
            fruitless += 1
            offset = header.next_offset

    def search_max_timestamp(self) -> TimestampSearch:
        """Looks for the first record with the largest timestamp (KIP-734).

        Raises `KafkaError` as `read`.
        """
        batch = self._look_up(self._reader.find_youngest_batch)
        return None if batch is None else (yield batch)

    # -- offsets and epochs --------------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: Offset) -> None:
        """Says that everything below `offset` is committed. It never falls, and never passes the log end offset."""
        if offset > self.high_watermark:
            self.high_watermark = min(offset, self.log_end_offset)

    def assign_leader_epoch(self, epoch: LeaderEpoch) -> None:
        """Notes that what is appended from now on is written under this epoch.

        The checkpoint is written with the next flush: until a record is written under it, an epoch need not last.
        """
        if self._epochs.assign(epoch, self.log_end_offset):
            self._epochs_changed = True

    def leader_epoch_at_start(self) -> LeaderEpoch:
        """The epoch that the log start offset was written under, -1 if that is not known."""
        return self._epochs.epoch_for_offset(self.log_start_offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEntry:
        """The largest epoch not above `epoch`, and where it ended (KIP-101); see `LeaderEpochs.end_offset_for`."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    # -- deletion ------------------------------------------------------------------------------------------------------

    def delete_records_before(self, offset: Offset) -> Offset:
        """Raises the log start offset (KIP-107); the one that holds now. Segments go with `delete_old_segments`.

        Raises `KafkaError` OFFSET_OUT_OF_RANGE above the high watermark.
        """
        self._check_online()
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"the log start offset of {self} can't be raised to {offset}, above the high watermark "
                f"{self.high_watermark}",
            )
        self._raise_log_start_offset(offset)
        return self.log_start_offset

    def _raise_log_start_offset(self, offset: Offset) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self._epochs.truncate_from_start(offset):
                self._epochs_changed = True

    def delete_old_segments(self, now_ms: Millis) -> int:
        """Lets go of the segments that `cleanup.policy`, `retention.*` and the log start offset no longer keep.

        Their files get a suffix and are removed after `file.delete.delay.ms`, by who calls `take_removals`.
        Returns how many. Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        active = self._check_online()
        if len(self._segments) == 1 and active.size_bytes == 0:
            return 0
        plan = plan_deletion(
            self._look_up(lambda: self._segments.facts(self.log_end_offset)),
            self.config,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
        )
        if not plan.segment_count:
            return 0
        try:
            if plan.segment_count == len(self._segments):
                self._roll(active, now_ms)
            self._reader.forget_positions()
            self._raise_log_start_offset(self._segments[plan.segment_count].base_offset)
            self._segments.drop_first(plan.segment_count, Millis(now_ms + self.config.file_delete_delay_ms))
        except OSError as error:
            raise KafkaError(ErrorCode.kafka_storage_error, f"segments of {self} can't be deleted: {error}") from error
        logger.info("%s: %d segments deleted (%s)", self, plan.segment_count, plan.reason)
        return plan.segment_count

    def _segments_changed(self) -> None:
        self._reader.forget_positions()

    def take_removals(self, now_ms: Millis) -> list[Path]:
        """Files whose time has come; the caller removes them."""
        return self._segments.take_removals(now_ms)

    def truncate_to(self, offset: Offset, now_ms: Millis) -> bool:
        """Cuts the log so that it ends at `offset` or, should that be within a batch, before the batch.

        Whether anything was cut. Raises `KafkaError` KAFKA_STORAGE_ERROR, which leaves the log offline.
        """
        self._check_online()
        if offset >= self.log_end_offset:
            # An epoch that was assigned and wrote nothing may be one that the leader does not know.
            self._forget_epochs_from(self.log_end_offset)
            return False
        self._reader.forget_positions()
        try:
            cut = self._segments.find_cut(offset)
            if cut.end < self._sync.recovery_point:
                self._services.before_truncation(self.topic_partition, cut.end)
            self._sync.forget_above(cut.end)
            end = self._segments.cut_at(cut, now_ms)
            self.log_end_offset = end
            self._forget_epochs_from(end)
            self.log_start_offset = min(self.log_start_offset, end)
            self.high_watermark = min(self.high_watermark, end)
            self._snapshot_offset = rebuild_producer_state(
                self._producers,
                list(self._segments),
                self._segments.snapshots(),
                # A deletion that is not on the disk yet may be forgotten by a crash, but not where a transaction began.
                self._segments[0].base_offset,
                end,
                now_ms,
                committed_below=self.high_watermark,
            )
        except (OSError, BadBatch, CorruptIndex, Damage) as error:
            self.mark_offline(f"it can't be cut to offset {offset}: {error}")
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline_reason) from error
        return True

    def _forget_epochs_from(self, offset: Offset) -> None:
        if self._epochs.truncate_from_end(offset):
            self._epochs_changed = True
