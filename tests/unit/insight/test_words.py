"""Tests the formatting of numbers, times and lists."""

from __future__ import annotations

import pytest

from klamm.insight.words import count, enumeration, moment, partition_names, partition_ranges, span


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 ms"),
        (-5, "0 ms"),
        (999, "999 ms"),
        (999.6, "1.0 s"),
        (4_210, "4.2 s"),
        (59_970, "60.0 s"),
        (99_949, "99.9 s"),
        (99_950, "1 min 40 s"),
        (120_000, "2 min"),
        (3_599_600, "1 h"),
        (7_500_000, "2 h 5 min"),
        (86_400_000, "1 d"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_a_span_has_two_units_at_most(milliseconds: float, shown: str) -> None:
    """A duration has at most two units and limited precision."""
    assert span(milliseconds) == shown


def test_a_moment_is_local_time() -> None:
    """A time is shown as local time; a time outside of the calendar is shown as a number."""
    assert len(moment(1_795_248_123_456)) == len("2026-11-21 12:00:03")
    assert moment(1_795_248_123_456, with_milliseconds=True).endswith(":03.456")
    assert moment(2**63 - 1) == "9223372036854775807 ms since 1970"


def test_numbers_agree_with_what_they_count() -> None:
    """A count has the singular or plural of its noun, and commas between thousands."""
    assert [count(number, "member") for number in (0, 1, 2)] == ["0 members", "1 member", "2 members"]
    assert count(12_345, "entry", "entries") == "12,345 entries"


def test_partitions_are_told_as_ranges() -> None:
    """Three or more consecutive partitions are shown as a range."""
    assert partition_ranges([3, 1, 0, 2, 7, 5, 8]) == "0-3, 5, 7, 8"
    assert partition_names({("orders", 1), ("bills", 0), ("orders", 0)}) == "bills 0; orders 0, 1"
    assert partition_names(set()) == "nothing"


def test_enumerations_end_with_and() -> None:
    """A list ends with "and", and a long list is shortened."""
    assert [enumeration(list("abcd")[:number]) for number in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert enumeration(list("abcde"), most=3) == "a, b and 3 more"
    assert enumeration(list("abc"), most=3) == "a, b and c"
