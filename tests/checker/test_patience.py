"""Tests that time limits restart with each progress, and are longer on a slow machine."""

from __future__ import annotations

import pytest
from tests.support.patience import Limit, slowness


class Clock:
    """A clock that advances only when a test sets it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def limit(clock: Clock, stretch: float) -> Limit:
    """Returns a limit of ten seconds with this measured slowness."""
    return Limit(10, clock=clock, measure=lambda: stretch)


def test_a_limit_is_over_when_its_time_is() -> None:
    """A limit is over when its time has passed, and not before."""
    clock = Clock()
    ten = limit(clock, 1.0)
    clock.now += 9.9
    assert not ten.is_over
    assert ten.left_s == pytest.approx(0.1)
    clock.now += 0.1
    assert ten.is_over
    assert ten.left_s == 0


def test_progress_begins_the_time_again() -> None:
    """Each progress restarts the time limit, however long the whole operation takes."""
    clock = Clock()
    ten = limit(clock, 1.0)
    for _ in range(5):
        clock.now += 9
        ten.progressed()
        assert not ten.is_over
    clock.now += 11
    assert ten.is_over


def test_a_slow_machine_has_more_time() -> None:
    """On a slow machine the limit is multiplied by the measured slowness. The slowness is measured only once."""
    clock = Clock()
    measured = iter([3.0, 1.0])
    ten = Limit(10, clock=clock, measure=lambda: next(measured))
    clock.now += 11
    assert not ten.is_over
    clock.now += 18
    assert not ten.is_over
    clock.now += 1
    assert ten.is_over


def test_where_all_is_well_nothing_is_measured() -> None:
    """The slowness is not measured before the limit's time has passed, because a measurement takes time."""

    def measure() -> float:
        raise AssertionError

    clock = Clock()
    ten = Limit(10, clock=clock, measure=measure)
    clock.now += 9
    assert not ten.is_over


def test_no_machine_is_faster_than_an_idle_one() -> None:
    """The slowness is at least 1, so limits never get shorter."""
    assert slowness() >= 1
