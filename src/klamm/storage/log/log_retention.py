"""The retention of one log: raises its log start offset, and deletes segments.

Source: `UnifiedLog.deleteOldSegments`, `maybeIncrementLogStartOffset` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from pathlib import Path

from klamm.core.log.retention import plan_deletion
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, Offset
from klamm.storage.log.log_durability import LogDurability
from klamm.storage.log.log_leader_epochs import LogLeaderEpochs
from klamm.storage.log.log_reader import LogReader
from klamm.storage.log.log_state import LogState
from klamm.storage.segment.segment import Segment

__all__ = ["LogRetention"]

_logger = logging.getLogger(__name__)


class LogRetention:
    """Deletes records at the beginning of one log, and raises its log start offset."""

    __slots__ = ("_durability", "_epochs", "_log", "_reader")

    def __init__(self, log: LogState, epochs: LogLeaderEpochs, durability: LogDurability, reader: LogReader) -> None:
        """Keeps the parts. `reader` is notified before segments are deleted."""
        self._log = log
        self._epochs = epochs
        self._durability = durability
        self._reader = reader

    def delete_records_before(self, offset: Offset) -> Offset:
        """Raises the log start offset (KIP-107), and returns the resulting one.

        `delete_old_segments` deletes the segments later. Raises `KafkaError` OFFSET_OUT_OF_RANGE above the high
        watermark.
        """
        log = self._log
        log.check_online()
        if offset > log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the log start offset of {log} can't be raised to {offset}, above the high watermark "
                f"{log.high_watermark}",
            )
        self._raise_log_start_offset(offset)
        return log.log_start_offset

    def follow_log_start_offset(self, offset: Offset) -> None:
        """Raises the log start offset of a follower towards the leader's, up to the high watermark.

        Source: `ReplicaFetcherThread.processPartitionData`, `maybeIncrementLogStartOffset`.
        """
        if self._log.offline_reason is None:
            self._raise_log_start_offset(min(offset, self._log.high_watermark))

    def _raise_log_start_offset(self, offset: Offset) -> None:
        if offset > self._log.log_start_offset:
            self._log.log_start_offset = offset
            self._epochs.truncate_from_start(offset)

    def delete_old_segments(self, now_ms: Millis) -> int:
        """Deletes the segments that `cleanup.policy`, `retention.*` and the log start offset no longer retain.

        Their files get a suffix; the caller of `take_removals` removes them after `file.delete.delay.ms`. Returns the
        number of segments. Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        log = self._log
        segments = log.segments
        active = log.check_online()
        if len(segments) == 1 and active.size_bytes == 0:
            return 0
        plan = plan_deletion(
            self._reader.look_up(lambda: segments.facts(log.log_end_offset)),
            log.config,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            now_ms=now_ms,
        )
        count = plan.segment_count
        if not count:
            return 0
        try:
            if count == len(segments):
                count = self._roll_before_deletion(active, count, now_ms)
            self._reader.forget_positions()
            self._raise_log_start_offset(segments[count].base_offset)
            segments.drop_first(count, Millis(now_ms + log.config.file_delete_delay_ms))
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"segments of {log} can't be deleted: {error}") from error
        _logger.info("%s: %d segments deleted (%s)", log, count, plan.reason)
        return count

    def _roll_before_deletion(self, active: Segment, count: int, now_ms: Millis) -> int:
        """Rolls a log whose `count` segments are all to be deleted. Returns how many can be deleted now.

        If the disk has no room for a new segment, the active one stays, and the others make the room. Raises OSError if
        there are no others.
        """
        try:
            self._durability.roll(active, now_ms)
        except OSError as error:
            if count == 1:
                raise
            _logger.warning("the active segment of %s can't be deleted yet: %s", self._log, error)
            return count - 1
        return count

    def take_removals(self, now_ms: Millis) -> list[Path]:
        """Returns the files that are due for removal; the caller removes them."""
        return self._log.segments.take_removals(now_ms)
