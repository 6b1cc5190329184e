"""The files of one partition's log and what of them lasts: rolling, flushing, closing, being offline.

`Log` adds what clients ask for.

Source: `storage/internals/log/UnifiedLog.java`, `LocalLog.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.core.log.leader_epoch import EpochEntry
from klamm.core.log.producer_state import ProducerEntry, ProducerSnapshotEntry
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerId, TopicId, TopicPartition
from klamm.storage.atomic_file import write_atomically
from klamm.storage.checkpoints import LEADER_EPOCH_FILE, encode_leader_epochs
from klamm.storage.failed_sync import note_failed_sync
from klamm.storage.flush import Flush
from klamm.storage.index_file import CorruptIndex
from klamm.storage.loaded_log import LoadedLog
from klamm.storage.log_files import SNAPSHOT_SUFFIX, file_name
from klamm.storage.log_sync import LogSync
from klamm.storage.producer_snapshot import write_snapshot
from klamm.storage.segment import Segment, SegmentSettings
from klamm.storage.segments import Segments

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig
    from klamm.storage.log_services import LogServices

__all__ = ["DurableLog", "segment_settings"]

logger = logging.getLogger(__name__)


class DurableLog:
    """One partition's log, without a way to write to it or read from it.

    Its attributes are for reading. `offline_reason` is None unless the log was found damaged or a sync failed: then
    everything is refused with KAFKA_STORAGE_ERROR until a restart finds it sound.
    """

    __slots__ = (
        "_epochs",
        "_epochs_changed",
        "_flushed_ms",
        "_producers",
        "_segments",
        "_services",
        "_snapshot_offset",
        "_sync",
        "_unread",
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
        has_new_names: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.offline_reason = loaded.offline_reason
        self._services = services
        self._segments = Segments(
            loaded.directory,
            segment_settings(config, services),
            loaded.segments,
            [(now_ms, path) for path in loaded.removals],
        )
        self._unread = loaded if loaded.offline_reason is not None else None
        self._epochs = loaded.leader_epochs
        self._epochs_changed = False
        self._producers = loaded.producers
        self._snapshot_offset = loaded.snapshot_offset
        folders = [loaded.directory, loaded.directory.parent] if has_new_names else []
        self._sync = LogSync(loaded.recovery_point, loaded.indexed_offset, folders)
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
    def recovery_point(self) -> Offset:
        """Every record below it outlasts a power failure, and is not looked at after a crash."""
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
            self._services.went_offline(self.topic_partition)

    def _fail_sync(self, reason: str) -> None:
        """A sync failed, on whichever thread: what was written may be gone while it can still be read."""
        self.mark_offline(reason)
        note_failed_sync(self.directory)

    def _check_online(self) -> Segment:
        active = self._segments.active
        if self.offline_reason is not None or active is None:
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline_reason or f"{self} is closed")
        return active

    @property
    def log_start_offset_to_checkpoint(self) -> Offset | None:
        """The log start offset; None for a log that could not be read, and whose start was not noted either."""
        return self.log_start_offset if self._unread is None else self._unread.noted_log_start_offset

    # -- segments ------------------------------------------------------------------------------------------------------

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
        """What belongs to the old segment is written now (its indexes) or by the flush that follows (a snapshot of the
        producers at its end)."""
        if old.base_offset == self.log_end_offset:
            return old
        new = self._segments.add(self.log_end_offset, now_ms)
        self._sync.made_file(new.path)
        try:
            old.seal()
            old.write_indexes()
        except (OSError, CorruptIndex) as error:
            logger.warning("the index of %s can't be written yet: %s", old.path, error)
        self._take_snapshot()
        self.flush_in_background(now_ms)
        return new

    def _take_snapshot(self) -> None:
        """Has a flush write down the producers as they are now, so that recovery can begin here. Without it, it only
        begins earlier."""
        offset = self._producers.end_offset = self.log_end_offset
        if offset > self._snapshot_offset:
            write = partial(self._write_snapshot, offset, self._producers.snapshot(), self._sync.truncations)
            self._sync.write_later(write, indexed_offset=offset)

    def _write_snapshot(self, offset: Offset, entries: list[ProducerSnapshotEntry], truncations: int) -> None:
        if not self._needs_snapshot(offset, truncations):
            return
        path = self.directory / file_name(offset, SNAPSHOT_SUFFIX)
        try:
            write_snapshot(path, entries, sync=True)
        except OSError as error:
            logger.warning("the producer snapshot %s can't be written: %s", path, error)
            return
        if self._needs_snapshot(offset, truncations):
            self._snapshot_offset = max(self._snapshot_offset, offset)
            return
        path.unlink(missing_ok=True)
        if self._snapshot_offset == offset:
            self._snapshot_offset = Offset(offset - 1)  # it took the place of the one that was there

    def _needs_snapshot(self, offset: Offset, truncations: int) -> bool:
        """Whether a segment still begins or ends there, and the log was not cut since, perhaps below it."""
        is_at_a_segment = offset == self.log_end_offset or any(
            each.base_offset == offset for each in list(self._segments)
        )
        return is_at_a_segment and truncations == self._sync.truncations

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
        flush = self.begin_flush(now_ms)
        if flush is not None:
            self._services.run_in_background(flush.run)

    def begin_flush(self, now_ms: Millis) -> Flush | None:
        """What makes everything up to the log end offset last: the caller runs it, on any thread, once.

        The recovery point follows; if the sync fails, the log is offline. None if it can't even be begun, for want of
        descriptors for example: then nothing has changed.
        """
        self._flushed_ms = now_ms
        return self._prepare_flush()

    def flush_if_due(self, now_ms: Millis) -> None:
        """Flushes in the background if `flush.ms` have gone by since the last flush and there is something to flush."""
        if self.log_end_offset > self._sync.recovery_point and now_ms - self._flushed_ms >= self.config.flush_ms:
            self._check_online()
            self.flush_in_background(now_ms)

    def _prepare_flush(self, *, is_last: bool = False) -> Flush | None:
        if self._epochs_changed:
            self._epochs_changed = False
            self._sync.write_later(self._write_leader_epochs)
        return self._sync.prepare(self._segments, self.log_end_offset, failed=self._fail_sync, is_last=is_last)

    def _write_leader_epochs(self) -> None:
        """Writes the epochs as they are now, whichever thread comes first. Raises OSError."""
        with self._services.checkpoint_lock:
            write_atomically(self.directory / LEADER_EPOCH_FILE, encode_leader_epochs(self._epochs.entries))

    # -- end -----------------------------------------------------------------------------------------------------------

    def begin_close(self) -> Flush | None:
        """Writes what is in memory, in the order of `log_sync`; what must be synced for the next start to trust the
        files, None if nothing.

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
        if self._sync.has_all_below(self.log_end_offset) and not active.has_unwritten_entries:
            return None
        return self._prepare_flush(is_last=True)

    def end_close(self) -> bool:
        """Closes the files; whether the next start may trust them unread."""
        is_clean = (
            self.offline_reason is None
            and self._sync.recovery_point == self.log_end_offset
            # A start that trusts the files looks for the producers nowhere else, nor at any index.
            and self._snapshot_offset >= self.log_end_offset
            and not any(segment.has_unwritten_entries for segment in self._segments)
        )
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
    jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
    return SegmentSettings(
        services.pool,
        index_interval_bytes=config.index_interval_bytes,
        max_index_bytes=config.segment_index_bytes,
        roll_jitter_ms=services.random.randrange(jitter_ms) if jitter_ms > 0 else 0,
    )
