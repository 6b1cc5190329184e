"""The log of one partition: append, read, look up, delete; the only way to a partition's records.

All of it is synchronous and belongs to one thread, the broker's loop; only syncing may be done on another.
Every refusal is a `KafkaError` with the code that goes into the answer.

Source: `storage/internals/log/UnifiedLog.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeVar

from klamm.core.log.leader_epoch import EpochEntry
from klamm.core.log.producer_state import ProducerEntry
from klamm.core.log.retention import plan_deletion
from klamm.core.log.validation import LOG_APPEND_TIME, check_batch, needs_rewrite, read_single_batch, rewrite
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import LOG_OVERHEAD_BYTES, read_batch_header
from klamm.protocol.types import NO_TIMESTAMP, LeaderEpoch, Millis, Offset, ProducerId, TopicId, TopicPartition
from klamm.storage.atomic_file import write_atomically
from klamm.storage.batch_scan import BadBatch
from klamm.storage.checkpoints import LEADER_EPOCH_FILE, encode_leader_epochs
from klamm.storage.flush import Flush
from klamm.storage.index_file import CorruptIndex
from klamm.storage.log_files import SNAPSHOT_SUFFIX, file_name
from klamm.storage.log_reader import LogReader, TimestampedOffset
from klamm.storage.log_sync import LogSync
from klamm.storage.producer_snapshot import write_snapshot
from klamm.storage.recovery import LoadedLog, rebuild_indexes, rebuild_producer_state
from klamm.storage.segment import Segment, SegmentSettings
from klamm.storage.segments import Segments

if TYPE_CHECKING:
    from klamm.config.topic import TopicConfig
    from klamm.storage.log_services import LogServices

__all__ = ["AppendInfo", "Log", "segment_settings"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

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


class Log:
    """One partition's records, from `log_start_offset` up to but without `log_end_offset`.

    Its attributes are for reading. `offline_reason` is None unless the log was found damaged or a sync failed: then
    everything is refused with KAFKA_STORAGE_ERROR until a restart finds it sound.
    """

    __slots__ = (
        "_epochs",
        "_epochs_changed",
        "_flushed_ms",
        "_producers",
        "_reader",
        "_segments",
        "_services",
        "_snapshot_offset",
        "_sync",
        "config",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "offline_reason",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        services: LogServices,
        loaded: LoadedLog,
        *,
        now_ms: Millis,
        is_new: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.offline_reason = loaded.offline_reason
        self._services = services
        self._segments = Segments(loaded.directory, segment_settings(config, services), loaded.segments)
        self._reader = LogReader(self._segments)
        self._epochs = loaded.leader_epochs
        self._epochs_changed = False
        self._producers = loaded.producers
        self._snapshot_offset = loaded.snapshot_offset
        self._sync = LogSync(loaded.recovery_point, [loaded.directory, loaded.directory.parent] if is_new else [])
        self._flushed_ms = now_ms

    def __str__(self) -> str:
        return str(self.topic_partition)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        """The partition's folder."""
        return self._segments.directory

    @property
    def is_offline(self) -> bool:
        """Whether everything is refused: `offline_reason` says why."""
        return self.offline_reason is not None

    @property
    def last_stable_offset(self) -> Offset:
        """Below it every transaction is decided. Without transactions that is all that is committed."""
        return self.high_watermark

    @property
    def recovery_point(self) -> Offset:
        """Everything below it outlasts a power failure, and is not looked at after a crash."""
        return self._sync.recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments, without their indexes."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """How many segments there are."""
        return len(self._segments)

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest leader epoch that was assigned, -1 for none."""
        return self._epochs.latest_epoch

    @property
    def leader_epochs(self) -> Sequence[EpochEntry]:
        """All leader epochs, oldest first, with their start offsets."""
        return self._epochs.entries

    def active_producers(self) -> Iterator[tuple[ProducerId, ProducerEntry]]:
        """The producers that the log remembers."""
        return iter(self._producers)

    def update_config(self, config: TopicConfig) -> None:
        """Takes a new configuration; segments that exist keep the index settings they were opened with."""
        if config is not self.config:
            self.config = config
            self._segments.settings = segment_settings(config, self._services)

    def mark_offline(self, reason: str) -> None:
        """Refuses everything from now on; the first reason counts."""
        if self.offline_reason is None:
            self.offline_reason = f"{self} is offline: {reason}"
            logger.error("%s", self.offline_reason)

    def _check_online(self) -> Segment:
        active = self._segments.active
        if self.offline_reason is not None or active is None:
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline_reason or f"{self} is closed")
        return active

    # -- append --------------------------------------------------------------------------------------------------------

    def append_as_leader(
        self, records: memoryview | bytes, *, leader_epoch: LeaderEpoch, now_ms: Millis, from_client: bool = True
    ) -> AppendInfo:
        """Checks a batch, gives it offsets and writes it; a batch that a producer sent before is not written again.

        `from_client` is False for what the broker's coordinators write. The bytes are not copied.
        Raises `KafkaError`: what `validation.check_batch` and `ProducerState.check` raise, RECORD_LIST_TOO_LARGE for
        more than `segment.bytes`, KAFKA_STORAGE_ERROR when the disk refuses: the log is then as it was before.
        """
        segment = self._segments.active
        if self.offline_reason is not None or segment is None:
            segment = self._check_online()
        config = self.config
        header = read_single_batch(records)
        check_batch(records, header, config, now_ms, from_client)
        if needs_rewrite(header, config):
            records = rewrite(records, header, config, now_ms)
            header = read_batch_header(records)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.record_list_too_large,
                f"the record batch of {size} bytes exceeds the maximum configured segment size of "
                f"{config.segment_bytes} (segment.bytes)",
            )
        is_idempotent = header.producer_id >= 0
        if is_idempotent and from_client:
            duplicate = self._producers.check(header)
            if duplicate is not None:
                return AppendInfo(
                    duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, self.log_start_offset, True
                )
        base_offset = self.log_end_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        max_timestamp = header.max_timestamp
        try:
            if segment.should_roll(
                size,
                last_offset,
                max_timestamp,
                now_ms=now_ms,
                max_segment_bytes=config.segment_bytes,
                max_segment_ms=config.max_segment_ms,
            ):
                segment = self._roll(segment, now_ms)
            segment.append(
                _PREFIX.pack(base_offset, header.batch_length, leader_epoch),
                memoryview(records)[_PREFIX_BYTES:size],
                last_offset,
                max_timestamp,
            )
        except (OSError, CorruptIndex, BadBatch) as error:
            self._undo_append(segment, error)
        next_offset = Offset(last_offset + 1)
        self.log_end_offset = next_offset
        if leader_epoch != self._epochs.latest_epoch and self._epochs.assign(leader_epoch, base_offset):
            self._epochs_changed = True
        if is_idempotent:
            self._producers.record(header, base_offset)
        if next_offset - self._sync.recovery_point >= config.flush_messages:
            self.flush(now_ms)
        return AppendInfo(
            base_offset,
            last_offset,
            now_ms if config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP,
            self.log_start_offset,
            False,
        )

    def _undo_append(self, segment: Segment, error: Exception) -> NoReturn:
        """Takes back what a failed write left. Where even that fails, nobody may write behind it: offline."""
        try:
            if isinstance(error, CorruptIndex | BadBatch):
                rebuild_indexes(segment)
            segment.offset_index.truncate_to(self.log_end_offset)
            segment.cut_back()
        except (OSError, CorruptIndex, BadBatch) as second_error:
            self.mark_offline(f"{segment.path} can't be cut back after a failed write ({error}): {second_error}")
        else:
            logger.error("an append to %s failed, nothing was written: %s", self, error)
        raise KafkaError(ErrorCode.kafka_storage_error, f"{self} can't be written: {error}") from error

    def roll(self, now_ms: Millis) -> None:
        """Begins a new segment at the log end offset, unless the active one is empty.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        active = self._check_online()
        try:
            self._roll(active, now_ms)
        except OSError as error:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{self} can't be rolled: {error}") from error

    def _roll(self, old: Segment, now_ms: Millis) -> Segment:
        """What belongs to the old segment (indexes, a producer snapshot at its end) is written now and synced later."""
        if old.base_offset == self.log_end_offset:
            return old
        new = self._segments.add(self.log_end_offset, now_ms)
        self._sync.made_file(new.path, with_content=False)
        try:
            old.seal()
            old.write_indexes()
        except (OSError, CorruptIndex) as error:
            logger.warning("the index of %s can't be written yet: %s", old.path, error)
        self._take_snapshot()
        self.flush_in_background(now_ms)
        return new

    def _take_snapshot(self) -> None:
        """Writes down the producers, so that recovery can begin here. Without it, it only begins earlier."""
        offset = self._producers.end_offset = self.log_end_offset
        if offset <= self._snapshot_offset:
            return
        path = self.directory / file_name(offset, SNAPSHOT_SUFFIX)
        try:
            write_snapshot(path, self._producers.snapshot(), sync=False)
        except OSError as error:
            logger.warning("the producer snapshot %s can't be written: %s", path, error)
            return
        self._sync.made_file(path, with_content=True)
        self._snapshot_offset = offset

    # -- flush ---------------------------------------------------------------------------------------------------------

    def flush(self, now_ms: Millis | None = None) -> None:
        """Makes everything up to the log end offset last, and moves the recovery point there.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if it can't be known to last; the log is offline then.
        """
        self._check_online()
        if self.log_end_offset <= self._sync.recovery_point:
            return
        if now_ms is not None:
            self._flushed_ms = now_ms
        flush = self._prepare_flush()
        if flush is None:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{self} can't be flushed")
        flush.run()
        self._check_online()

    def flush_in_background(self, now_ms: Millis) -> None:
        """As `flush`, on the data directory's own thread; the recovery point follows when it is done."""
        self._flushed_ms = now_ms
        flush = self._prepare_flush()
        if flush is not None:
            self._services.run_in_background(flush.run)

    def flush_if_due(self, now_ms: Millis) -> None:
        """Flushes in the background if `flush.ms` have gone by since the last flush and there is something to flush."""
        if self.log_end_offset > self._sync.recovery_point and now_ms - self._flushed_ms >= self.config.flush_ms:
            self._check_online()
            self.flush_in_background(now_ms)

    def _prepare_flush(self, *, is_last: bool = False) -> Flush | None:
        before = self._write_leader_epochs if self._epochs_changed else None
        flush = self._sync.prepare(
            self._segments, self.log_end_offset, before=before, failed=self.mark_offline, is_last=is_last
        )
        if flush is not None:
            self._epochs_changed = False
        return flush

    def _write_leader_epochs(self) -> None:
        """Writes the epochs as they are now, whichever thread comes first. Raises OSError."""
        with self._services.checkpoint_lock:
            write_atomically(self.directory / LEADER_EPOCH_FILE, encode_leader_epochs(self._epochs.entries))

    # -- read ----------------------------------------------------------------------------------------------------------

    def read(
        self, offset: Offset, max_bytes: int, *, upper_bound: Offset, minimum_one_batch: bool
    ) -> bytes | memoryview:
        """Whole batches from the one that holds `offset` on, below `upper_bound` (the high watermark, the last stable
        offset or the log end offset), at most `max_bytes` of them.

        With `minimum_one_batch` the first is given even if it is larger; without it, nothing if it is. Empty at or
        beyond `upper_bound`.
        Raises `KafkaError`: OFFSET_OUT_OF_RANGE outside the log, CORRUPT_MESSAGE where the file is damaged,
        KAFKA_STORAGE_ERROR when it can't be read.
        """
        if self.offline_reason is not None:
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
            )
        except (BadBatch, CorruptIndex, OSError) as error:
            self._handle_read_error(error)
        return self.read(offset, max_bytes, upper_bound=upper_bound, minimum_one_batch=minimum_one_batch)

    def _handle_read_error(self, error: Exception) -> None:
        """Raises the answer's error, unless an index was bad and is good now: then the reader asks again."""
        if isinstance(error, CorruptIndex):
            logger.warning("%s; it is built anew", error)
            try:
                for segment in self._segments:
                    if segment.base_offset == error.base_offset:
                        rebuild_indexes(segment)
            except (BadBatch, OSError) as second_error:
                error = second_error
            else:
                return
        if isinstance(error, BadBatch):
            message = f"{self} is damaged at position {error.position}: {error}"
            logger.error("%s", message)
            raise KafkaError(ErrorCode.corrupt_message, message) from error
        raise KafkaError(ErrorCode.kafka_storage_error, f"{self} can't be read: {error}") from error

    def _look_up(self, search: Callable[[], T]) -> T:
        self._check_online()
        while True:
            try:
                return search()
            except (BadBatch, CorruptIndex, OSError) as error:
                self._handle_read_error(error)

    def offset_for_timestamp(self, timestamp_ms: Millis) -> TimestampedOffset | None:
        """Timestamp, offset and leader epoch of the first record that is no older, None if all are.

        Raises `KafkaError` as `read`.
        """
        return self._look_up(lambda: self._reader.find_timestamp(timestamp_ms, self.log_start_offset))

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """Timestamp, offset and leader epoch of the first record with the largest timestamp (KIP-734), None for an
        empty log.

        Raises `KafkaError` as `read`.
        """
        return self._look_up(self._reader.find_max_timestamp)

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

    @property
    def log_start_offset_to_checkpoint(self) -> Offset | None:
        """The log start offset if the files don't tell it."""
        segments = self._segments
        return self.log_start_offset if len(segments) and self.log_start_offset > segments[0].base_offset else None

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

    def take_removals(self, now_ms: Millis) -> list[Path]:
        """Files whose time has come; the caller removes them."""
        return self._segments.take_removals(now_ms)

    def expire_producers(self, now_ms: Millis) -> int:
        """Forgets producers that have not written for `producer.id.expiration.ms`; how many."""
        return self._producers.expire(now_ms)

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
            if offset < self._sync.recovery_point:
                self._services.before_truncation(self.topic_partition, offset)
            end = self._sync.forget_above(self._segments.cut_at(offset, now_ms))
            self.log_end_offset = end
            self._forget_epochs_from(end)
            self.log_start_offset = min(self.log_start_offset, end)
            self.high_watermark = min(self.high_watermark, end)
            self._snapshot_offset = rebuild_producer_state(
                self._producers, list(self._segments), self._segments.snapshots(), self.log_start_offset, end, now_ms
            )
        except (OSError, BadBatch, CorruptIndex) as error:
            self.mark_offline(f"it can't be cut to offset {offset}: {error}")
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline_reason) from error
        return True

    def _forget_epochs_from(self, offset: Offset) -> None:
        if self._epochs.truncate_from_end(offset):
            self._epochs_changed = True

    # -- end -----------------------------------------------------------------------------------------------------------

    def begin_close(self) -> Flush | None:
        """Writes what is in memory; what must be synced for the next start to trust the files, None if nothing.

        The caller runs it, on any thread, and then calls `end_close`.
        """
        active = self._segments.active
        if self.offline_reason is not None or active is None:
            return None
        try:
            active.seal()
        except (OSError, CorruptIndex) as error:
            logger.error("%s was not closed in order: %s", self, error)
            return None
        self._take_snapshot()
        # An epoch that was only assigned is no reason: until a record is written under it, it need not last.
        if (
            self.log_end_offset <= self._sync.recovery_point
            and not active.has_unwritten_entries
            and not self._sync.has_new_names
        ):
            return None
        return self._prepare_flush(is_last=True)

    def end_close(self) -> bool:
        """Closes the files; whether the next start may trust them unread."""
        is_clean = self.offline_reason is None and self._sync.recovery_point == self.log_end_offset
        self._segments.close()
        self._segments.active = None
        return is_clean

    def close(self) -> bool:
        """Writes and syncs everything and closes the files; whether the next start may trust them unread."""
        flush = self.begin_close()
        if flush is not None:
            flush.run()
        return self.end_close()

    def leave(self, directory: Path, reason: str) -> None:
        """Closes the files without a flush and takes the log, whose folder is now `directory`, out of use."""
        self._sync.forget_above(self.log_end_offset)
        self._segments.close()
        self._segments.move_to(directory)
        self._segments.active = None
        if self.offline_reason is None:
            self.offline_reason = f"{self} {reason}"


def segment_settings(config: TopicConfig, services: LogServices) -> SegmentSettings:
    """What a topic's configuration says about its segments; `segment.jitter.ms` keeps logs from rolling all at once."""
    return SegmentSettings(
        services.pool,
        index_interval_bytes=config.index_interval_bytes,
        max_index_bytes=config.segment_index_bytes,
        roll_jitter_ms=services.random.randrange(config.segment_jitter_ms) if config.segment_jitter_ms > 0 else 0,
    )
