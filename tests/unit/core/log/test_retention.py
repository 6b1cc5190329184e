"""Tests which segments retention deletes: by log start offset, by size, and by age."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.config.topic_config import TopicConfig
from klamm.core.log.retention import SegmentFacts, plan_deletion
from klamm.protocol.types import Millis, Offset

NOW_MS = 1_000_000
COMPACT = frozenset({"compact"})
BOTH = frozenset({"compact", "delete"})


def _segments(*facts: tuple[int, int, int]) -> list[SegmentFacts]:
    return [SegmentFacts(Offset(end), size, Millis(timestamp)) for end, size, timestamp in facts]


FOUR = _segments((10, 100, 1000), (20, 100, 2000), (30, 100, 3000), (35, 50, 4000))


def _plan(
    segments: list[SegmentFacts] = FOUR,
    *,
    log_start_offset: int = 0,
    high_watermark: int = 35,
    now_ms: int = NOW_MS,
    **config: Any,
) -> int:
    config = {"retention_ms": -1, **config}
    return plan_deletion(
        segments,
        TopicConfig(**config),
        log_start_offset=Offset(log_start_offset),
        high_watermark=Offset(high_watermark),
        now_ms=Millis(now_ms),
    ).segment_count


def test_nothing_goes_without_a_limit() -> None:
    """With the limits at -1 (no limit) no segment is deleted."""
    assert _plan() == 0


@pytest.mark.parametrize(("log_start_offset", "gone"), [(9, 0), (10, 1), (19, 1), (30, 3), (35, 3)])
def test_segments_wholly_below_the_log_start_offset_go(log_start_offset: int, gone: int) -> None:
    """Segments wholly below the log start offset are deleted under any cleanup.policy, except the active segment."""
    assert _plan(log_start_offset=log_start_offset) == gone
    assert _plan(log_start_offset=log_start_offset, cleanup_policy=COMPACT) == gone


@pytest.mark.parametrize(
    ("retention_bytes", "gone"), [(350, 0), (251, 0), (250, 1), (149, 2), (51, 2), (50, 3), (0, 4)]
)
def test_segments_go_as_long_as_what_is_left_is_no_less_than_the_limit(retention_bytes: int, gone: int) -> None:
    """The oldest segments are deleted while the rest is at least retention.bytes large."""
    assert _plan(retention_bytes=retention_bytes) == gone


@pytest.mark.parametrize(("now_ms", "gone"), [(1500, 0), (1501, 1), (3501, 3), (4501, 4)])
def test_segments_go_when_their_newest_record_is_too_old(now_ms: int, gone: int) -> None:
    """A segment whose newest record is too old is deleted, even the active segment, which is rolled for this."""
    assert _plan(retention_ms=500, now_ms=now_ms) == gone


def test_a_young_segment_keeps_the_older_ones_behind_it() -> None:
    """Deletion goes from the oldest segment on and stops at the first segment that stays."""
    segments = _segments((10, 1, 1000), (20, 1, 9000), (30, 1, 1000))
    assert _plan(segments, retention_ms=500, now_ms=5000, high_watermark=30) == 1


def test_nothing_above_the_high_watermark_goes() -> None:
    """Segments above the high watermark stay, because the log start offset never passes the high watermark."""
    assert _plan(retention_ms=0, high_watermark=29) == 2


def test_an_empty_active_segment_stays() -> None:
    """An empty active segment is not deleted."""
    assert _plan(_segments((10, 5, 1000), (10, 0, 1000)), retention_ms=0, high_watermark=10) == 1


def test_a_compacted_topic_keeps_its_segments() -> None:
    """A compacted topic keeps its segments unless its policy includes delete."""
    assert _plan(cleanup_policy=COMPACT, retention_ms=0, retention_bytes=0) == 0
    assert _plan(cleanup_policy=BOTH, retention_ms=0) == 4
