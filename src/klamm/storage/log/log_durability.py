"""The durability of one log: rolling, flushing and closing, in the order of `log_sync`.

Source: `storage/internals/log/UnifiedLog.java`, `LocalLog.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, Offset
from klamm.storage.log.failed_sync import note_failed_sync
from klamm.storage.log.flush import Flush
from klamm.storage.log.log_leader_epochs import LogLeaderEpochs
from klamm.storage.log.log_producers import LogProducers
from klamm.storage.log.log_services import LogServices
from klamm.storage.log.log_state import LogState
from klamm.storage.log.log_sync import LogSync
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment

__all__ = ["LogDurability"]

_logger = logging.getLogger(__name__)


class LogDurability:
    """Makes the records of one log durable.

    `LogSync` keeps the order of the writes and the recovery point. This part decides when a flush begins, hands over
    the leader epochs and the producer snapshots in time, and takes the log offline when a sync fails.
    """

    __slots__ = ("_epochs", "_flushed_ms", "_log", "_producers", "_services", "_sync")

    def __init__(
        self,
        log: LogState,
        sync: LogSync,
        epochs: LogLeaderEpochs,
        producers: LogProducers,
        services: LogServices,
        *,
        now_ms: Millis,
    ) -> None:
        self._log = log
        self._sync = sync
        self._epochs = epochs
        self._producers = producers
        self._services = services
        self._flushed_ms = now_ms

    @property
    def recovery_point(self) -> Offset:
        """The offset below which every record is durable. Recovery after a crash does not read below it."""
        return self._sync.recovery_point

    def roll(self, old: Segment, now_ms: Millis) -> Segment:
        """Starts a new segment at the log end offset, unless `old`, the active one, is empty. Returns the active
        segment.

        The indexes of the old segment are written now, the snapshot of the producers at its end by the following flush.
        Raises OSError.
        """
        log = self._log
        if old.base_offset == log.log_end_offset:
            return old
        new = log.segments.add(log.log_end_offset, now_ms)
        self._sync.made_file(new.path)
        try:
            old.seal()
            old.write_indexes()
        except (OSError, CorruptIndex) as error:
            _logger.warning("the index of %s can't be written yet: %s", old.path, error)
        self._producers.take_snapshot()
        self.flush_in_background(now_ms)
        return new

    # -- flush ---------------------------------------------------------------------------------------------------------

    def flush(self, now_ms: Millis | None = None) -> None:
        """Makes all records up to the log end offset durable, and moves the recovery point there.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if their durability is unknown; the log is offline then.
        """
        log = self._log
        log.check_online()
        if log.log_end_offset <= self._sync.recovery_point:
            return
        if now_ms is not None:
            self._flushed_ms = now_ms
        flush = self._prepare_flush()
        if flush is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log} can't be flushed")
        flush.run()
        log.check_online()

    def flush_in_background(self, now_ms: Millis) -> None:
        """Flushes on the data directory's background thread. The recovery point moves when the flush is done."""
        flush = self.begin_flush(now_ms)
        if flush is not None:
            self._services.run_in_background(flush.run)

    def begin_flush(self, now_ms: Millis) -> Flush | None:
        """Returns a flush of all records up to the log end offset. The caller runs it once, on any thread.

        The flush moves the recovery point; if the sync fails, the log goes offline. None if the flush can't begin, for
        example because no descriptors are left: then nothing has changed.
        """
        self._flushed_ms = now_ms
        return self._prepare_flush()

    def flush_if_due(self, now_ms: Millis) -> None:
        """Flushes in the background if `flush.ms` have passed since the last flush and there is something to flush."""
        log = self._log
        if log.log_end_offset > self._sync.recovery_point and now_ms - self._flushed_ms >= log.config.flush_ms:
            log.check_online()
            self.flush_in_background(now_ms)

    def _prepare_flush(self, *, is_last: bool = False) -> Flush | None:
        self._epochs.checkpoint_with_next_flush(self._sync)
        log = self._log
        return self._sync.prepare(log.segments, log.log_end_offset, failed=self._fail_sync, is_last=is_last)

    def _fail_sync(self, reason: str) -> None:
        """Takes the log offline after a failed sync, on any thread: data that can still be read may be lost.

        Does nothing for a log that is out of use, because its folder may have another name.
        """
        if self._log.segments.active is None:
            return
        self._log.mark_offline(reason)
        note_failed_sync(self._log.segments.directory)

    # -- end -----------------------------------------------------------------------------------------------------------

    def begin_close(self) -> Flush | None:
        """Writes what is in memory, in the order of `log_sync`.

        Returns the flush that lets the next start trust the files, None if none is needed.
        """
        log = self._log
        active = log.segments.active
        if log.offline_reason is not None or active is None:
            return None
        try:
            active.seal()
            self._producers.take_snapshot()
        except (OSError, CorruptIndex, KafkaError) as error:
            _logger.error("%s was not closed in order: %s", log, error)
            return None
        # An epoch without records needs no flush.
        if self._sync.has_all_below(log.log_end_offset) and not active.has_unwritten_entries:
            return None
        return self._prepare_flush(is_last=True)

    def is_complete(self) -> bool:
        """Returns whether the next start may trust the files unread."""
        log = self._log
        return (
            log.offline_reason is None
            and self._sync.recovery_point == log.log_end_offset
            # A start that trusts the files reads the producers only from the snapshot, and checks no index.
            and self._producers.snapshot_offset >= log.log_end_offset
            and not any(segment.has_unwritten_entries for segment in log.segments)
        )
