"""The lag rule."""

from __future__ import annotations

import pytest

from klamm.insight.group_offsets import lag


@pytest.mark.parametrize(
    ("committed", "log_start", "high_watermark", "expected"),
    [
        (3, 0, 10, 7),
        (10, 0, 10, 0),
        (0, 4, 10, 6),  # four of the records not read are gone
        (0, 10, 10, 0),  # all of them are
        (12, 0, 10, 0),  # the log was cut behind the commit
        (None, 0, 10, None),
        (3, None, None, None),  # the topic is gone
        (0, 0, 0, 0),
    ],
)
def test_lag_counts_the_records_that_can_still_be_read(
    committed: int | None, log_start: int | None, high_watermark: int | None, expected: int | None
) -> None:
    """max(0, high watermark - max(committed, log start)); none without a commit."""
    assert lag(committed, log_start, high_watermark) == expected
