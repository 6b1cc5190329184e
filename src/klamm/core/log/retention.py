"""Decides which segments of a log to delete: below the log start offset, above the size limit, or too old.

Source: `UnifiedLog.deleteOldSegments` and the conditions it names, of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from klamm.protocol.types import Millis, Offset

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig

__all__ = ["DeletionPlan", "SegmentFacts", "plan_deletion"]


class SegmentFacts(NamedTuple):
    """The properties of a segment that retention needs.

    `end_offset` is the base offset of the next segment, or the log end offset. `largest_timestamp` is the largest
    timestamp of the records, or the file's modification time if they have none.
    """

    end_offset: Offset
    size_bytes: int
    largest_timestamp: Millis


class DeletionPlan(NamedTuple):
    """How many segments to delete, from the oldest on, and the reason."""

    segment_count: int
    reason: str


def plan_deletion(
    segments: Sequence[SegmentFacts],
    config: TopicConfig,
    *,
    log_start_offset: Offset,
    high_watermark: Offset,
    now_ms: Millis,
) -> DeletionPlan:
    """Returns which segments to delete now. `segments` are all segments, oldest first; the last one is active.

    Segments with offsets at or above the high watermark, and an empty active segment, are never deleted. Without
    `delete` in `cleanup.policy`, only segments below the log start offset are deleted.
    """
    reasons = []

    def extend(start: int, reason: str, condition: Callable[[int], bool]) -> int:
        end = start
        while end < len(segments):
            segment = segments[end]
            is_last = end == len(segments) - 1
            if segment.end_offset > high_watermark or not condition(end) or (is_last and segment.size_bytes == 0):
                break
            end += 1
        if end > start:
            reasons.append(reason)
        return end

    last = len(segments) - 1
    count = extend(
        0,
        f"below the log start offset {log_start_offset}",
        lambda index: index != last and segments[index].end_offset <= log_start_offset,
    )
    if not config.delete:
        return DeletionPlan(count, ", ".join(reasons))

    if config.retention_bytes >= 0:
        excess = sum(segment.size_bytes for segment in segments[count:]) - config.retention_bytes

        def too_much(index: int) -> bool:
            nonlocal excess
            excess -= segments[index].size_bytes
            return excess >= 0

        count = extend(count, f"retention.bytes={config.retention_bytes}", too_much)

    if config.retention_ms >= 0:
        count = extend(
            count,
            f"retention.ms={config.retention_ms}",
            lambda index: now_ms - segments[index].largest_timestamp > config.retention_ms,
        )
    return DeletionPlan(count, ", ".join(reasons))
