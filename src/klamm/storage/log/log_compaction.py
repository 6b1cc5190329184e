"""The compaction of one log: the interface of the log cleaner to the log.

Like every part of a log it belongs to one thread, the broker's event loop. The cleaner's own thread only gets paths and
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from klamm.config.topic_config import LONG_MAX
from klamm.core.log.compaction import CleaningPlan, CompactionFacts, plan_cleaning
from klamm.core.log.compaction_batches import AbortedEntry
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset
from klamm.storage.cleaner.source import Source
from klamm.storage.log.log_reader import LogReader
from klamm.storage.log.log_state import LogState
from klamm.storage.log.log_transactions import LogTransactions
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.index_file import CorruptIndex

if TYPE_CHECKING:
    from klamm.storage.cleaner.swap import SwapFiles

__all__ = ["LogCompaction"]


class LogCompaction:
    """Plans the cleaning of one log, and replaces inactive segments by cleaned ones.

    The cleaner sets `is_under_way`; meanwhile retention skips the log.
    """

    __slots__ = ("_log", "_reader", "_transactions", "is_under_way")

    def __init__(self, log: LogState, transactions: LogTransactions, reader: LogReader) -> None:
        """Keeps the parts. `reader` is notified before segments are replaced."""
        self._log = log
        self._transactions = transactions
        self._reader = reader
        self.is_under_way = False

    def plan(self, checkpoint: Offset | None, now_ms: Millis) -> CleaningPlan:
        """Plans a cleaning; `checkpoint` is the offset at which the last one stopped, None if the log was never
        cleaned.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if the log can't be read.
        """
        log = self._log
        log.check_online()
        wants_first_timestamps = log.config.max_compaction_lag_ms < LONG_MAX
        try:
            facts = [
                CompactionFacts(
                    segment.base_offset,
                    segment.size_bytes,
                    segment.largest_timestamp(),
                    segment.first_batch_timestamp() if wants_first_timestamps else NO_TIMESTAMP,
                )
                for segment in log.segments
            ]
        except (OSError, BadBatch, CorruptIndex) as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log} can't be read: {error}") from error
        return plan_cleaning(
            facts,
            log.config,
            checkpoint=checkpoint,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=self._transactions.last_stable_offset,
            now_ms=now_ms,
        )

    def sources_below(self, offset: Offset) -> list[Source]:
        """Returns the inactive segments that begin below `offset`, which must be the base offset of a segment."""
        segments = list(self._log.segments)
        return [
            Source(segment.path, segment.base_offset, following.base_offset, segment.size_bytes)
            for segment, following in pairwise(segments)
            if segment.base_offset < offset
        ]

    def still_has(self, sources: Sequence[Source]) -> bool:
        """Returns whether the log still has these segments unchanged."""
        segments = self._log.segments
        if self._log.offline_reason is not None or not len(segments):
            return False
        first = segments.index_of(sources[0].base_offset)
        end = first + len(sources)
        now = [(segment.path, segment.size_bytes) for segment in list(segments)[first:end]]
        return now == [(source.path, source.size_bytes) for source in sources] and end < len(segments)

    def aborted_below(self, offset: Offset) -> list[AbortedEntry]:
        """Returns the aborted transactions that have records below `offset`.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        try:
            return list(self._transactions.aborted_between(self._log.segments[0].base_offset, offset))
        except (OSError, CorruptIndex) as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._log} can't be read: {error}") from error

    def swap_in(self, cleaned: SwapFiles, replaced: Sequence[Source], now_ms: Millis) -> None:
        """Replaces segments by the cleaned segment made from them. The old files are removed later.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if a file can't be renamed; the log is offline then, and the next start
        finishes the swap.
        """
        log = self._log
        first = log.segments.index_of(replaced[0].base_offset)
        self._reader.forget_positions()
        try:
            log.segments.replace(
                range(first, first + len(replaced)), cleaned, Millis(now_ms + log.config.file_delete_delay_ms)
            )
        except OSError as error:
            log.mark_offline(f"the cleaned segment at offset {cleaned.base_offset} can't be swapped in: {error}")
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_reason) from error
