"""Tests the rates at which partitions grow and are read."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.insight.pictures import NOW_MS, group, member, snapshot

from klamm.insight.group.group_rates import Rate, Rates

KEY = ("orders", 0)
PICTURE = group(member("one", [0, 1]))


def test_one_look_tells_no_rate() -> None:
    """There is no rate with fewer than two snapshots, or with two snapshots of the same moment."""
    rates = Rates()
    assert rates.total() == Rate(None, None)
    rates.add(snapshot(PICTURE))
    rates.add(snapshot(PICTURE))
    assert rates.of(KEY) == Rate(None, None)


def test_the_rate_is_what_came_in_the_last_ten_seconds() -> None:
    """The rate counts the records that arrived and the records that were committed in the last ten seconds, per
    second."""
    rates = Rates()
    for second in range(31):
        rates.add(snapshot(PICTURE, committed=50 * second, end=100 * second, at_ms=NOW_MS + 1_000 * second))
    assert rates.of(KEY) == Rate(100.0, 50.0)
    assert rates.total() == Rate(200.0, 100.0)
    for second in range(31, 42):
        rates.add(snapshot(PICTURE, committed=1_500, end=3_000, at_ms=NOW_MS + 1_000 * second))
    assert rates.of(KEY) == Rate(0.0, 0.0)


def test_what_is_not_known_has_no_rate() -> None:
    """A partition without a commit, or without an earlier end, has no rate."""
    rates = Rates()
    rates.add(replace(snapshot(PICTURE), ends={}, committed={}))
    rates.add(replace(snapshot(PICTURE, at_ms=NOW_MS + 1_000), committed={}))
    assert rates.of(KEY) == Rate(None, None)
    assert rates.total() == Rate(None, None)


def test_a_reset_is_no_reading() -> None:
    """A commit that goes back, as after a reset, counts as a rate of zero."""
    rates = Rates()
    rates.add(snapshot(PICTURE, committed=5))
    rates.add(snapshot(PICTURE, committed=0, at_ms=NOW_MS + 1_000))
    assert rates.of(KEY).committed == 0.0
