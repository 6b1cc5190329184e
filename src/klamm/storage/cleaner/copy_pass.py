"""The second pass of a cleaning: copies the retained records of adjacent segments into one segment.

It works batch by batch and creates no object per record.

Source: `Cleaner.cleanSegments` and `cleanInto` of Apache Kafka 4.3.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from klamm.core.log.compaction_batches import BatchJudge, CleanedTransactions, LastBatch
from klamm.protocol.record_scanner import OffsetTable, rewrite_batch
from klamm.protocol.types import Millis, Offset, ProducerId
from klamm.storage.cleaner.cleaned_segment import CleanedSegment
from klamm.storage.cleaner.passes import CleaningStatistics, PassSettings, is_commit, open_batch
from klamm.storage.cleaner.source import Source, SourceBatch, open_source, read_batches
from klamm.storage.cleaner.swap import SwapFiles, offer_swap

__all__ = ["CopyPass"]


class CopyPass(NamedTuple):
    """Decides which records stay. The segments of a log must pass through it in order.

    The table is complete below `end_offset`: records from there on stay. `transactions` are the same as the judge's.
    """

    table: OffsetTable
    end_offset: Offset
    judge: BatchJudge
    transactions: CleanedTransactions
    last_batches: Callable[[], Mapping[ProducerId, LastBatch]]
    new_delete_horizon_ms: Millis
    index_interval_bytes: int
    settings: PassSettings
    statistics: CleaningStatistics

    def run(self, group: Sequence[Source]) -> SwapFiles:
        """Copies the retained records of a group of segments into one segment, which is then synced and ready to be
        swapped in.

        Raises `CleaningAborted`, `UncleanableSegment`, OSError; in that case no file is left.
        """
        self.judge.last_batches = self.last_batches()
        last_with_batches = max((index for index, source in enumerate(group) if source.size_bytes), default=-1)
        modified_ns = 0
        with CleanedSegment(
            group[0].path.parent,
            group[0].base_offset,
            index_interval_bytes=self.index_interval_bytes,
            buffer_bytes=self.settings.buffer_bytes,
        ) as cleaned:
            for index, source in enumerate(group):
                with open_source(source.path) as descriptor:
                    self._copy(descriptor, source, cleaned, holds_last=index == last_with_batches)
                    modified_ns = os.fstat(descriptor).st_mtime_ns
            cleaned.finish(self.transactions.take_retained(), modified_ns)
            self.statistics.bytes_written += cleaned.size_bytes
            return offer_swap(cleaned.base_offset, cleaned.size_bytes, cleaned.paths)

    def _copy(self, descriptor: int, source: Source, cleaned: CleanedSegment, *, holds_last: bool) -> None:
        settings = self.settings
        for batch in read_batches(descriptor, source, settings.buffer_bytes, settings.account):
            kept = self._filter(source, batch, is_last=holds_last and batch.end == source.size_bytes)
            if kept and (written := cleaned.append(kept)):
                settings.account(written)

    def _filter(self, source: Source, batch: SourceBatch, *, is_last: bool) -> bytes | memoryview:
        """Returns the batch with its retained records, empty bytes if the whole batch is dropped."""
        header, data, _ = batch
        statistics = self.statistics
        statistics.bytes_read += header.size_bytes
        statistics.records_read += header.records_count
        fate = self.judge.judge(header, is_commit(source, batch) if header.is_control else None, is_last=is_last)
        if fate.drops_records and not fate.stays_empty:
            return b""
        spans = open_batch(source, batch)
        if fate.drops_records:
            keep = bytearray(spans.count)
        elif header.is_control:
            keep = bytearray(b"\x01") * spans.count
            statistics.records_written += spans.count
        else:
            keep = bytearray(spans.count)
            kept, without_key = self.table.mark_kept(
                spans,
                header.base_offset,
                keep,
                end_offset=self.end_offset,
                keep_tombstones=not self.judge.has_passed_horizon(header),
            )
            statistics.records_written += kept
            statistics.records_without_key += without_key
        return rewrite_batch(
            header,
            data,
            spans,
            keep,
            new_delete_horizon_ms=self.new_delete_horizon_ms,
            marks_empty_transaction=fate.begins_delete_horizon,
            retain_empty=fate.stays_empty,
        )
