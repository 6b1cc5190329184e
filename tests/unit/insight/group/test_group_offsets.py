"""Tests the rule for the lag."""

from __future__ import annotations

import pytest

from klamm.insight.group.group_offsets import lag


@pytest.mark.parametrize(
    ("committed", "log_start", "high_watermark", "expected"),
    [
        (3, 0, 10, 7),
        (10, 0, 10, 0),
        (0, 4, 10, 6),  # four of the unread records are deleted
        (0, 10, 10, 0),  # all unread records are deleted
        (12, 0, 10, 0),  # the log was truncated below the commit
        (None, 0, 10, None),
        (3, None, None, None),  # the topic is deleted
        (0, 0, 0, 0),
    ],
)
def test_lag_counts_the_records_that_can_still_be_read(
    committed: int | None, log_start: int | None, high_watermark: int | None, expected: int | None
) -> None:
    """The lag is max(0, high watermark - max(committed, log start)); without a commit there is no lag."""
    assert lag(committed, log_start, high_watermark) == expected
