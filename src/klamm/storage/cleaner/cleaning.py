"""The cleaning of one log, step by step.

Source: `Cleaner.doClean` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from klamm.core.log.compaction import CleaningPlan, SegmentSizes, group_segments
from klamm.core.log.compaction_batches import BatchJudge, CleanedTransactions
from klamm.protocol.record_scanner import OffsetTable
from klamm.protocol.types import Millis, Offset
from klamm.storage.cleaner.copy_pass import CopyPass
from klamm.storage.cleaner.offset_pass import fill_offset_table
from klamm.storage.cleaner.passes import CleaningAborted, CleaningStatistics, PassSettings
from klamm.storage.cleaner.source import Source

if TYPE_CHECKING:
    from klamm.storage.log.log import Log

__all__ = ["Cleaning", "Step", "Steps", "TableSettings", "clean_log"]

_logger = logging.getLogger(__name__)

Step: TypeAlias = Callable[[], object]
"""A slow operation that may run on any thread."""

Steps: TypeAlias = Generator[Step, Any, bool]
"""A cleaning in progress. It yields its steps and returns whether it was completed."""


class Cleaning(NamedTuple):
    """A log to clean, and the plan for it."""

    log: Log
    plan: CleaningPlan


class TableSettings(NamedTuple):
    """The memory for the latest offset of each key, and the highest load factor of the table."""

    memory_bytes: int
    load_factor: float


def clean_log(
    cleaning: Cleaning,
    table_settings: TableSettings,
    settings: PassSettings,
    note: Callable[[Offset], None],
    clock: Callable[[], Millis],
) -> Steps:
    """Cleans a log and yields its slow steps. `note` stores the offset up to which the log is clean, on any thread.

    Raises `CleaningAborted`, `UncleanableSegment`, `KafkaError`, OSError. Segments that were already swapped in stay.
    """
    log, plan = cleaning
    started_s = time.perf_counter()
    statistics = CleaningStatistics()
    table = OffsetTable(table_settings.memory_bytes, os.urandom(16))
    sources = log.compaction.sources_below(plan.first_uncleanable_offset)
    aborted = log.compaction.aborted_below(plan.first_uncleanable_offset)
    # A newer record must be durable before the older record of its key is removed. The markers that decided the
    # transactions must be durable, too: they may lie after the cleaned part, up to the high watermark.
    needed_offset = log.high_watermark
    if log.recovery_point < needed_offset:
        flush = log.durability.begin_flush(clock())
        if flush is None:
            raise CleaningAborted
        yield flush.run
        if log.recovery_point < needed_offset:
            raise CleaningAborted
    # From the first swap on the log may have gaps. A later start must know this even if `cleanup.policy` has changed.
    yield partial(note, plan.first_dirty_offset)
    end_offset: Offset = yield partial(
        fill_offset_table,
        table,
        [source for source in sources if source.end_offset > plan.first_dirty_offset],
        first_dirty_offset=plan.first_dirty_offset,
        max_entries=max(1, int(table.slots * table_settings.load_factor)),
        aborted=aborted,
        settings=settings,
    )
    statistics.keys = len(table)
    groups: list[list[Source]] = yield partial(
        _group, [source for source in sources if source.base_offset < end_offset], log, plan.first_uncleanable_offset
    )
    now_ms = clock()
    transactions = CleanedTransactions(aborted)
    copy_pass = CopyPass(
        table=table,
        end_offset=end_offset,
        judge=BatchJudge(transactions, now_ms),
        transactions=transactions,
        last_batches=log.producers.last_batches,
        new_delete_horizon_ms=Millis(now_ms + log.config.delete_retention_ms),
        index_interval_bytes=log.config.index_interval_bytes,
        settings=settings,
        statistics=statistics,
    )
    for group in groups:
        cleaned = yield partial(copy_pass.run, group)
        if settings.stopped.is_set() or not log.compaction.still_has(group):
            yield cleaned.remove
            raise CleaningAborted
        log.compaction.swap_in(cleaned, group, clock())
    yield partial(note, end_offset)
    _report(cleaning, end_offset, statistics, time.perf_counter() - started_s)
    return True


def _group(sources: list[Source], log: Log, first_uncleanable_offset: Offset) -> list[list[Source]]:
    sizes = [
        SegmentSizes(
            source.base_offset,
            source.size_bytes,
            _size_of(source.path.with_suffix(".index")),
            _size_of(source.path.with_suffix(".timeindex")),
        )
        for source in sources
    ]
    groups = group_segments(
        sizes,
        max_bytes=log.config.segment_bytes,
        max_index_bytes=log.config.segment_index_bytes,
        first_uncleanable_offset=first_uncleanable_offset,
    )
    return [sources[group.start : group.stop] for group in groups]


def _size_of(path: os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _report(cleaning: Cleaning, end_offset: Offset, statistics: CleaningStatistics, duration_s: float) -> None:
    log, plan = cleaning
    _logger.info(
        "cleaned %s up to offset %d (dirty from %d) in %.1f s: %d keys, %.1f MB of %.1f MB and %d of %d records stay",
        log,
        end_offset,
        plan.first_dirty_offset,
        duration_s,
        statistics.keys,
        statistics.bytes_written / 1e6,
        statistics.bytes_read / 1e6,
        statistics.records_written,
        statistics.records_read,
    )
    if statistics.records_without_key:
        _logger.warning("%d records of %s had no key and were removed", statistics.records_without_key, log)
