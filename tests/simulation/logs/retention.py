"""What retention must leave of a log, computed from the written batches and the first offsets of the segments.

Retention deletes whole segments, oldest first, in topics that are not only compacted. It deletes while the rest is at
least `retention.bytes` large, and then while all records of a segment are older than `retention.ms`. It deletes nothing
that is not committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.logs.model import PartitionModel

__all__ = ["start_after_retention"]


class _Segment(NamedTuple):
    end: int
    size_bytes: int
    largest_timestamp: int


def start_after_retention(
    model: PartitionModel, base_offsets: Sequence[int], *, high_watermark: int, now_ms: int
) -> int:
    """Returns the log start offset after a run of retention; `base_offsets` are the first offsets of the segments."""
    config, start = model.config, model.start
    if not config.delete:
        return start
    segments = _segments(model, base_offsets)
    while len(segments) > 1 and segments[0].end <= min(start, high_watermark):
        del segments[0]
    while segments and _may_go(segments[0], high_watermark):
        is_too_much = sum(segment.size_bytes for segment in segments[1:]) >= config.retention_bytes >= 0
        if not is_too_much:
            break
        start = segments.pop(0).end
    while segments and _may_go(segments[0], high_watermark):
        if not now_ms - segments[0].largest_timestamp > config.retention_ms >= 0:
            break
        start = segments.pop(0).end
    return start


def _may_go(segment: _Segment, high_watermark: int) -> bool:
    return segment.end <= high_watermark and segment.size_bytes > 0


def _segments(model: PartitionModel, base_offsets: Sequence[int]) -> list[_Segment]:
    segments = []
    for base, end in zip(base_offsets, [*base_offsets[1:], model.end], strict=True):
        headers = [batch.header for batch in model.batches if base <= batch.header.base_offset < end]
        size_bytes = sum(header.size_bytes for header in headers)
        segments.append(_Segment(end, size_bytes, max((header.max_timestamp for header in headers), default=-1)))
    return segments
