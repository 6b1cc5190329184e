"""Tests which part of a log is cleaned, and which segments are merged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from klamm.config.topic_config import TopicConfig
from klamm.core.log.compaction import CleaningPlan, CompactionFacts, SegmentSizes, group_segments, plan_cleaning
from klamm.protocol.types import Millis, Offset

NOW_MS = Millis(1_000_000)
COMPACT = TopicConfig(cleanup_policy=frozenset({"compact"}))


def _segments(*timestamps: int) -> list[CompactionFacts]:
    """Returns segments of ten offsets and 100 bytes each; the last one is active."""
    return [
        CompactionFacts(Offset(10 * index), 100, Millis(timestamp), Millis(timestamp))
        for index, timestamp in enumerate(timestamps)
    ]


def _plan(
    segments: list[CompactionFacts],
    config: TopicConfig = COMPACT,
    *,
    checkpoint: int | None = None,
    start: int = 0,
    end: int | None = None,
    stable: int | None = None,
) -> CleaningPlan:
    end = 10 * len(segments) if end is None else end
    return plan_cleaning(
        segments,
        config,
        checkpoint=None if checkpoint is None else Offset(checkpoint),
        log_start_offset=Offset(start),
        log_end_offset=Offset(end),
        last_stable_offset=Offset(end if stable is None else stable),
        now_ms=NOW_MS,
    )


def test_a_log_that_was_never_cleaned_is_dirty_up_to_the_active_segment() -> None:
    """A log without a checkpoint is dirty up to the active segment, which is never cleaned."""
    plan = _plan(_segments(1, 1, 1, 1))
    assert (plan.first_dirty_offset, plan.first_uncleanable_offset) == (0, 30)
    assert (plan.clean_bytes, plan.cleanable_bytes, plan.cleanable_ratio) == (0, 300, 1.0)


def test_cleaning_goes_on_where_it_stopped() -> None:
    """Cleaning continues at the checkpoint; the ratio is that of the dirty bytes to the clean and cleanable bytes."""
    plan = _plan(_segments(1, 1, 1, 1, 1), checkpoint=30)
    assert (plan.first_dirty_offset, plan.first_uncleanable_offset) == (30, 40)
    assert (plan.clean_bytes, plan.cleanable_bytes, plan.cleanable_ratio) == (300, 100, 0.25)
    assert not plan.is_due(0.25)
    assert plan.is_due(0.2)


def test_a_segment_that_the_last_cleaning_did_not_get_through_counts_as_both() -> None:
    """The segment with the first dirty offset counts as clean and as dirty, because Kafka counts whole segments."""
    plan = _plan(_segments(1, 1, 1), checkpoint=15)
    assert (plan.clean_bytes, plan.cleanable_bytes) == (200, 100)


@pytest.mark.parametrize(("checkpoint", "start"), [(5, 10), (99, 10)])
def test_a_checkpoint_outside_of_the_log_is_not_believed(checkpoint: int, start: int) -> None:
    """A checkpoint outside the log is ignored, and the whole log is dirty."""
    plan = _plan(_segments(1, 1, 1), checkpoint=checkpoint, start=start)
    assert (plan.first_dirty_offset, plan.is_checkpoint_wrong) == (start, True)


def test_what_is_not_decided_is_not_cleaned() -> None:
    """The segment that contains the last stable offset, and every later segment, is not cleaned."""
    plan = _plan(_segments(1, 1, 1, 1), stable=25)
    assert plan.first_uncleanable_offset == 20
    assert plan.cleanable_bytes == 200


def test_what_is_younger_than_the_lag_is_not_cleaned() -> None:
    """A segment whose largest timestamp is within min.compaction.lag.ms is not cleaned, nor is any later segment."""
    config = replace(COMPACT, min_compaction_lag_ms=1000)
    plan = _plan(_segments(1, NOW_MS - 999, 1, 1), config)
    assert plan.first_uncleanable_offset == 10
    assert _plan(_segments(1, NOW_MS - 1000, 1, 1), config).first_uncleanable_offset == 30


def test_nothing_is_due_while_all_is_clean_or_young() -> None:
    """No cleaning is due while all segments are clean, active or too young, not even with a ratio of 0."""
    assert not _plan(_segments(1, 1, 1), checkpoint=20).is_due(0.0)
    assert not _plan(_segments(1)).is_due(0.0)
    assert not _plan(_segments(NOW_MS, NOW_MS), replace(COMPACT, min_compaction_lag_ms=1)).is_due(0.0)


def test_an_overdue_log_is_cleaned_however_little_is_dirty() -> None:
    """max.compaction.lag.ms counts from the oldest first batch of the dirty segments, without the active one."""
    config = replace(COMPACT, max_compaction_lag_ms=1000)
    segments = _segments(1, 1, NOW_MS - 5000, NOW_MS - 9000)
    plan = _plan(segments, config, checkpoint=20)
    assert plan.overdue_ms == 4000
    assert plan.is_due(0.9)
    assert not _plan(segments, config, checkpoint=30).is_due(0.9)
    assert not _plan(_segments(1, 1, NOW_MS - 1000, 1), config, checkpoint=20).is_due(0.9)


def test_records_without_a_timestamp_are_never_overdue() -> None:
    """Records without a timestamp are never overdue, as in Kafka."""
    assert _plan(_segments(-1, 0, 1), replace(COMPACT, max_compaction_lag_ms=1)).overdue_ms == 0


def _sizes(*sizes: int, step: int = 10) -> list[SegmentSizes]:
    return [SegmentSizes(Offset(step * index), size, size // 10, size // 10) for index, size in enumerate(sizes)]


def _groups(segments: list[SegmentSizes], **limits: int) -> list[list[int]]:
    groups = group_segments(
        segments,
        max_bytes=limits.get("max_bytes", 1000),
        max_index_bytes=limits.get("max_index_bytes", 1000),
        first_uncleanable_offset=Offset(limits.get("end", 10 * len(segments))),
    )
    return [list(group) for group in groups]


def test_neighbours_become_one_segment_as_long_as_it_stays_within_its_size() -> None:
    """Neighbouring segments are merged while the sum of their log sizes, and of each index, is within its limit."""
    assert _groups(_sizes(400, 400, 400, 100, 1000, 10)) == [[0, 1], [2, 3], [4], [5]]
    assert _groups(_sizes(400, 400, 400), max_bytes=10_000, max_index_bytes=80) == [[0, 1], [2]]


def test_a_segment_larger_than_the_limit_stands_alone() -> None:
    """A segment above the limit is not merged; segment.bytes may have been lowered since it was written."""
    assert _groups(_sizes(5000, 10, 10)) == [[0], [1, 2]]


def test_offsets_of_one_segment_stay_within_what_an_index_can_hold() -> None:
    """Offsets of a merged segment fit the 31 bits of an index entry; they reach up to the start of the next segment."""
    step = 2**30
    assert _groups(_sizes(10, 10, 10, 10, step=step), end=4 * step) == [[0, 1], [2, 3]]
    assert _groups(_sizes(10, 10, step=step), end=2 * step + 1) == [[0], [1]]


def test_an_empty_segment_needs_no_offsets() -> None:
    """Empty segments are merged at any offset; otherwise one would stay every two thousand million offsets."""
    step = 2**31
    assert _groups(_sizes(10, 0, 10, step=step), end=3 * step) == [[0, 1], [2]]
