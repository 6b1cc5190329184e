"""Plans the cleaning of a compacted log: which part is dirty, how dirty it is, and which segments are merged.

A log has a clean part, which the cleaner has processed, and a dirty part. The end of the dirty part can't be cleaned:
the active segment, offsets from the last stable offset on, and segments younger than `min.compaction.lag.ms`.

Source: `storage/internals/log/LogCleanerManager.java`, `LogToClean.java`, `Cleaner.groupSegmentsBySize` of Apache
Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.protocol.types import Millis, Offset

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig

__all__ = ["CleaningPlan", "CompactionFacts", "SegmentSizes", "group_segments", "plan_cleaning"]

_MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class CompactionFacts(NamedTuple):
    """The properties of a segment that cleaning needs.

    `largest_timestamp` is the largest timestamp of the records, or the file's modification time if they have none.
    `first_timestamp` is the largest timestamp of the first batch, -1 if it has none.
    """

    base_offset: Offset
    size_bytes: int
    largest_timestamp: Millis
    first_timestamp: Millis


class SegmentSizes(NamedTuple):
    """The sizes that decide whether a segment can be merged with others: the bytes of its log and its indexes."""

    base_offset: Offset
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


class CleaningPlan(NamedTuple):
    """The cleanable offsets of a log: from the first dirty one up to, but excluding, the first uncleanable one.

    `overdue_ms`: how long the oldest dirty record has exceeded `max.compaction.lag.ms`.
    `is_checkpoint_wrong`: the last cleaning's checkpoint is outside the log, which was truncated or lost its beginning.
    """

    first_dirty_offset: Offset
    first_uncleanable_offset: Offset
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    is_checkpoint_wrong: bool

    @property
    def cleanable_ratio(self) -> float:
        """The dirty share of the clean and the cleanable bytes, 0 for an empty log."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Returns whether the log should be cleaned: it is dirty enough, or overdue."""
        return self.cleanable_bytes > 0 and (self.overdue_ms > 0 or self.cleanable_ratio > min_cleanable_dirty_ratio)


def plan_cleaning(
    segments: Sequence[CompactionFacts],
    config: TopicConfig,
    *,
    checkpoint: Offset | None,
    log_start_offset: Offset,
    log_end_offset: Offset,
    last_stable_offset: Offset,
    now_ms: Millis,
) -> CleaningPlan:
    """Returns the cleaning plan for a log with these segments; the last one is active.

    `checkpoint` is the offset where the last cleaning stopped, None if there was none.
    """
    is_wrong = checkpoint is not None and not log_start_offset <= checkpoint <= log_end_offset
    first_dirty = log_start_offset if checkpoint is None or is_wrong else checkpoint
    bases = [segment.base_offset for segment in segments]
    active = bases[-1]
    dirty = segments[_floor(bases, first_dirty) : len(segments) - 1] if first_dirty < active else ()

    bounds = [last_stable_offset, active]
    if config.min_compaction_lag_ms > 0:
        youngest = now_ms - config.min_compaction_lag_ms
        bounds += [segment.base_offset for segment in dirty if segment.largest_timestamp > youngest][:1]
    uncleanable = max(first_dirty, min(bounds))
    first_uncleanable = bases[_floor(bases, uncleanable)] if uncleanable < active else active

    clean = segments[: bisect_left(bases, first_dirty)]
    start = min(first_dirty, first_uncleanable)
    cleanable = (
        segments[_floor(bases, start) : bisect_left(bases, first_uncleanable)] if start < first_uncleanable else ()
    )
    return CleaningPlan(
        first_dirty,
        first_uncleanable,
        sum(segment.size_bytes for segment in clean),
        sum(segment.size_bytes for segment in cleanable),
        _overdue_ms(dirty, config, now_ms),
        is_wrong,
    )


def _floor(bases: Sequence[int], offset: int) -> int:
    """Returns the index of the segment that contains `offset`; 0 for offsets before the first segment."""
    return max(0, bisect_right(bases, offset) - 1)


def _overdue_ms(dirty: Sequence[CompactionFacts], config: TopicConfig, now_ms: Millis) -> int:
    oldest = min((segment.first_timestamp for segment in dirty if segment.first_timestamp > 0), default=None)
    if oldest is None:
        return 0
    return max(0, now_ms - config.max_compaction_lag_ms - oldest)


def group_segments(
    segments: Sequence[SegmentSizes], *, max_bytes: int, max_index_bytes: int, first_uncleanable_offset: Offset
) -> list[range]:
    """Groups neighbouring segments to be merged, so that repeated cleaning does not leave many small files.

    A group stays within the maximum size of a segment's log and of each index, and within the offset range of an index
    entry.
    """
    groups: list[range] = []
    start = 0
    while start < len(segments):
        first = segments[start]
        _, log_bytes, offset_bytes, time_bytes = first
        end = start + 1
        while end < len(segments):
            following = segments[end]
            log_bytes += following.size_bytes
            offset_bytes += following.offset_index_bytes
            time_bytes += following.time_index_bytes
            if log_bytes > max_bytes or offset_bytes > max_index_bytes or time_bytes > max_index_bytes:
                break
            # The start of the next segment limits the offsets of this one. An empty segment has no offsets to fit.
            limit = segments[end + 1].base_offset if end + 1 < len(segments) else first_uncleanable_offset
            if following.size_bytes and limit - 1 - first.base_offset > _MAX_RELATIVE_OFFSET:
                break
            end += 1
        groups.append(range(start, end))
        start = end
    return groups
