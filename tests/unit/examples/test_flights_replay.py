"""Tests which records the replay writes."""

from __future__ import annotations

from datetime import UTC, datetime

from examples.flights.data import Flight
from examples.flights.replay import part_of

DAYS = [datetime(2013, month, 1, tzinfo=UTC) for month in (1, 2, 3)]
RECORDS = [Flight(int(day.timestamp() * 1000), b"ATL", b"{}") for day in DAYS]


def test_a_part_of_the_year_begins_with_its_first_day_and_ends_before_the_last() -> None:
    """The two parts before and after a day have each record once, and the closing event is in the second one."""
    assert part_of(RECORDS, None, DAYS[1]) == RECORDS[:1]
    assert part_of(RECORDS, DAYS[1], None) == RECORDS[1:]
    assert part_of(RECORDS, DAYS[1], DAYS[2]) == RECORDS[1:2]
    assert part_of(RECORDS, None, None) == RECORDS
