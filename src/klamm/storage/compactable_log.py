"""What the log cleaner asks of a log, and does to it.

Like all of a log it belongs to one thread, the broker's loop; the cleaner's own thread only gets paths and numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from klamm.config.topic_config import LONG_MAX
from klamm.core.log.compaction import CleaningPlan, CompactionFacts, plan_cleaning
from klamm.core.log.compaction_batches import AbortedEntry, LastBatch
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset, ProducerId, TopicId, TopicPartition
from klamm.storage.batch_scan import BadBatch
from klamm.storage.cleaner.source import Source
from klamm.storage.index_file import CorruptIndex
from klamm.storage.transactional_log import TransactionalLog

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig
    from klamm.storage.cleaner.swap import SwapFiles
    from klamm.storage.loaded_log import LoadedLog
    from klamm.storage.log_services import LogServices

__all__ = ["CompactableLog"]

logger = logging.getLogger(__name__)


class CompactableLog(TransactionalLog):
    """A log whose inactive segments can be exchanged for cleaned ones.

    `is_being_cleaned` is for the cleaner to set; meanwhile retention leaves the log alone.
    """

    __slots__ = ("is_being_cleaned",)

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
        self.is_being_cleaned = False

    def plan_cleaning(self, checkpoint: Offset | None, now_ms: Millis) -> CleaningPlan:
        """What there is to clean; `checkpoint` is where the last cleaning stopped, None if there was none.

        Raises `KafkaError` KAFKA_STORAGE_ERROR where the log can't be read.
        """
        self._check_online()
        wants_first_timestamps = self.config.max_compaction_lag_ms < LONG_MAX
        try:
            facts = [
                CompactionFacts(
                    segment.base_offset,
                    segment.size_bytes,
                    segment.largest_timestamp(),
                    segment.first_batch_timestamp() if wants_first_timestamps else NO_TIMESTAMP,
                )
                for segment in self._segments
            ]
        except (OSError, BadBatch, CorruptIndex) as error:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{self} can't be read: {error}") from error
        return plan_cleaning(
            facts,
            self.config,
            checkpoint=checkpoint,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            last_stable_offset=self.last_stable_offset,
            now_ms=now_ms,
        )

    def sources_below(self, offset: Offset) -> list[Source]:
        """The segments that begin below `offset`, which is where a segment begins; never the active one."""
        segments = list(self._segments)
        return [
            Source(segment.path, segment.base_offset, following.base_offset, segment.size_bytes)
            for segment, following in pairwise(segments)
            if segment.base_offset < offset
        ]

    def still_has(self, sources: Sequence[Source]) -> bool:
        """Whether the segments are the log's as they were."""
        if self.is_offline or not len(self._segments):
            return False
        first = self._segments.index_of(sources[0].base_offset)
        now = [(segment.path, segment.size_bytes) for segment in list(self._segments)[first : first + len(sources)]]
        return now == [(source.path, source.size_bytes) for source in sources] and first + len(sources) < len(
            self._segments
        )

    def aborted_below(self, offset: Offset) -> list[AbortedEntry]:
        """The aborted transactions that have records below `offset`. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        try:
            return list(self.aborted_transactions_between(self._segments[0].base_offset, offset))
        except (OSError, CorruptIndex) as error:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{self} can't be read: {error}") from error

    def last_batches(self) -> dict[ProducerId, LastBatch]:
        """The last batch of each producer that the log remembers; may be called on any thread.

        A producer that writes meanwhile is as before or after: its new batch is beyond what is cleaned.
        """
        result: dict[ProducerId, LastBatch] = {}
        for producer_id, entry in self._producers.entries():
            last = entry.batches[-1:]
            result[ProducerId(producer_id)] = LastBatch(last[0].last_offset if last else Offset(-1), entry.epoch)
        return result

    def swap_in(self, cleaned: SwapFiles, replaced: Sequence[Source], now_ms: Millis) -> None:
        """Puts a cleaned segment in the place of those it was made of, whose files are removed later.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if a file can't be renamed; the log is offline then, and the next start
        finishes the swap.
        """
        first = self._segments.index_of(replaced[0].base_offset)
        self._segments_changed()
        try:
            self._segments.replace(
                range(first, first + len(replaced)), cleaned, Millis(now_ms + self.config.file_delete_delay_ms)
            )
        except OSError as error:
            self.mark_offline(f"the cleaned segment at offset {cleaned.base_offset} can't be swapped in: {error}")
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline_reason) from error

    def _segments_changed(self) -> None:
        """Called before segments are exchanged: what was remembered of them holds no more."""
