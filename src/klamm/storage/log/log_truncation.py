"""The truncation of one log: removes records at its end, or all of them.

Source: `UnifiedLog.truncateTo` and `truncateFullyAndStartAt` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, Offset
from klamm.storage.atomic_file import sync_directory
from klamm.storage.log.log_leader_epochs import LogLeaderEpochs
from klamm.storage.log.log_producers import LogProducers
from klamm.storage.log.log_reader import LogReader
from klamm.storage.log.log_services import LogOffsets, LogServices
from klamm.storage.log.log_state import LogState
from klamm.storage.log.log_sync import LogSync
from klamm.storage.log.log_transactions import LogTransactions
from klamm.storage.recovery.index_recovery import rebuild_for_reading
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.damage import Damage
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segments import Cut

__all__ = ["LogTruncation"]

_logger = logging.getLogger(__name__)


class LogTruncation:
    """Removes records at the end of one log. Updates its offsets, recovery point, epochs and producers accordingly."""

    __slots__ = ("_epochs", "_log", "_producers", "_reader", "_services", "_sync", "_transactions")

    def __init__(  # noqa: PLR0917 - one argument for each part that a truncation touches
        self,
        log: LogState,
        sync: LogSync,
        epochs: LogLeaderEpochs,
        producers: LogProducers,
        transactions: LogTransactions,
        reader: LogReader,
        services: LogServices,
    ) -> None:
        """Keeps the parts.

        `reader` is notified before segments are cut, `services` before the recovery point is lowered.
        """
        self._log = log
        self._sync = sync
        self._epochs = epochs
        self._producers = producers
        self._transactions = transactions
        self._reader = reader
        self._services = services

    def offsets_after_cut(self, offset: Offset) -> LogOffsets | None:
        """Returns what the checkpoints must contain before the log is truncated to `offset`; None if nothing of it
        changes.

        After a crash, a start must not believe the former offsets of records that are others by then. Raises
        `KafkaError` KAFKA_STORAGE_ERROR, which leaves the log offline.
        """
        log = self._log
        log.check_online()
        if offset >= log.log_end_offset:
            return None
        try:
            return self._offsets_after(self._find_cut(offset))
        except (OSError, BadBatch, CorruptIndex, Damage) as error:
            raise self._failed(f"it can't be cut to offset {offset}", error) from error

    def _find_cut(self, offset: Offset) -> Cut:
        """Returns the cut for a truncation to `offset`, after a rebuild of damaged indexes of the segment to cut.

        Raises BadBatch, Damage, OSError.
        """
        segments = self._log.segments
        if offset < segments[0].base_offset:
            return segments.find_cut(offset)  # all segments go
        segment = segments[segments.index_of(offset)]
        try:
            segment.offset_index.load()
            segment.time_index.load()
            cut = segments.find_cut(offset)
        except CorruptIndex as error:
            _logger.warning("%s; it is rebuilt", error)
            rebuild_for_reading(segment)
            cut = segments.find_cut(offset)
        self._transactions.load_index(segment)
        return cut

    def _offsets_after(self, cut: Cut) -> LogOffsets | None:
        log, end = self._log, cut.end
        now = LogOffsets(self._sync.recovery_point, log.log_start_offset, log.high_watermark)
        after = LogOffsets(*(min(each, end) for each in now))
        if cut.position is None:
            # The first segment is above the end. A start would miss records if the log began below it, so the log start
            # offset follows the cut.
            return after._replace(log_start_offset=log.log_start_offset)
        return after if end < max(now) else None

    def offsets_after_restart(self, offset: Offset) -> LogOffsets:
        """Returns what the checkpoints must contain before the log begins again at `offset`."""
        return LogOffsets(self._sync.recovery_point, offset, self._log.high_watermark)

    def offsets_after_earlier_begin(self, offset: Offset) -> LogOffsets:
        """Returns what the checkpoints must contain before the empty log begins again at `offset`, below its log start
        offset.

        A start that finds no batch there begins at the log start offset, and must not miss records below it.
        """
        log = self._log
        return LogOffsets(min(self._sync.recovery_point, offset), log.log_start_offset, log.high_watermark)

    def truncate_to(self, offset: Offset, now_ms: Millis) -> bool:
        """Truncates the log so that it ends at `offset`, or at the end of the last batch below it.

        Returns whether anything was removed. Then the rebuild of the producers has begun; it is complete if committed
        records were removed. Raises `KafkaError` KAFKA_STORAGE_ERROR, which leaves the log offline.
        """
        log = self._log
        log.check_online()
        if offset >= log.log_end_offset:
            # The leader may not know an epoch that was assigned here and has no records.
            self._epochs.truncate_from_end(log.log_end_offset)
            return False
        self._reader.forget_positions()
        try:
            cut = self._find_cut(offset)
            was_committed = cut.end < log.high_watermark
            offsets = self._offsets_after(cut)
            if offsets is not None:
                log.log_start_offset, log.high_watermark = offsets.log_start_offset, offsets.high_watermark
                self._services.before_truncation(log.topic_partition, offsets)
            with self._producers.snapshot_lock:
                self._sync.forget_above(cut.end)
                end = log.segments.cut_at(cut, now_ms)
                # The next flush syncs the folder. Otherwise a power failure might bring the old names back, and take
                # new ones, although the recovery point is beyond the cut.
                self._sync.made_file(log.segments[-1].path)
                log.log_end_offset = end
                self._epochs.truncate_from_end(end)
                if cut.position is None:
                    self._begin_below(end)
                self._producers.begin_rebuild(now_ms)
        except (OSError, BadBatch, CorruptIndex, Damage) as error:
            raise self._failed(f"it can't be cut to offset {offset}", error) from error
        if was_committed:
            # The state may have forgotten a transaction whose marker was removed: it is open again.
            self._producers.complete_rebuild()
        return True

    def _begin_below(self, end: Offset) -> None:
        """Lowers the log start offset to `end`, where the only segment begins, also in the checkpoints. Raises OSError.

        Until then a start that finds only this segment begins empty at the former log start offset, and the leader has
        it truncated again.
        """
        log = self._log
        log.log_start_offset = end
        sync_directory(log.segments.directory)
        self._services.before_truncation(
            log.topic_partition, LogOffsets(self._sync.recovery_point, end, log.high_watermark)
        )

    def restart_at(self, offset: Offset, now_ms: Millis) -> None:
        """Removes all records, and begins again at `offset`, which must be beyond the log end offset.

        The checkpoint of the log start offset is written first. After a crash, a start finds that all records lie below
        it, and begins at `offset`, too. Raises `KafkaError` KAFKA_STORAGE_ERROR, which leaves the log offline.
        """
        log = self._log
        log.check_online()
        assert offset > log.log_end_offset, "the records below the end might be needed"
        offsets = self.offsets_after_restart(offset)
        log.log_start_offset = offset
        self._begin_at(offset, offsets, now_ms)
        log.high_watermark = offset

    def begin_earlier(self, offset: Offset, now_ms: Millis) -> None:
        """Lets an empty log end at `offset`, below its log start offset, so that a batch from there on can be appended.

        The caller must append a batch that ends above the log start offset, before anyone else looks at the log. Raises
        `KafkaError` KAFKA_STORAGE_ERROR, which leaves the log offline.
        """
        log = self._log
        log.check_online()
        assert offset < log.log_start_offset == log.log_end_offset, "records would be removed"
        self._begin_at(offset, self.offsets_after_earlier_begin(offset), now_ms)

    def _begin_at(self, offset: Offset, offsets: LogOffsets, now_ms: Millis) -> None:
        log = self._log
        self._reader.forget_positions()
        try:
            self._services.before_truncation(log.topic_partition, offsets)
            with self._producers.snapshot_lock:
                self._sync.forget_above(offset)
                self._epochs.clear()
                log.segments.restart_at(offset, now_ms)
                self._sync.made_file(log.segments[-1].path)
                log.log_end_offset = offset
                self._producers.restart_at(offset)
        except (OSError, BadBatch, CorruptIndex, Damage) as error:
            raise self._failed(f"it can't begin again at offset {offset}", error) from error

    def _failed(self, what: str, error: Exception) -> KafkaError:
        self._log.mark_offline(f"{what}: {error}")
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._log.offline_reason)
