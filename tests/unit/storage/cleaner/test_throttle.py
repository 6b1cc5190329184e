"""Tests the limit on the bytes per second that cleaners read and write."""

from __future__ import annotations

from threading import Event

import pytest

from klamm.storage.cleaner.throttle import Throttle


class Clock:
    """A clock that advances only when a test sets it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_without_a_bound_nobody_waits() -> None:
    """Without a limit no cleaner waits. Kafka's default limit is the largest double."""
    assert Throttle().reserve(10**12) == 0
    assert Throttle(1.7976931348623157e308).reserve(10**12) == 0


def test_what_is_used_is_paid_with_time() -> None:
    """Users wait one after the other for the bytes they use, and idle time gives no credit."""
    clock = Clock()
    throttle = Throttle(1000, clock)
    assert throttle.reserve(500) == pytest.approx(0.5)
    assert throttle.reserve(500) == pytest.approx(1.0)
    clock.now_s += 0.75
    assert throttle.reserve(500) == pytest.approx(0.75)
    clock.now_s += 100
    assert throttle.reserve(500) == pytest.approx(0.5)


@pytest.mark.parametrize("rate", [0.0, -5.0, float("nan")])
def test_a_rate_that_makes_no_sense_is_the_slowest(rate: float) -> None:
    """A rate of zero, below zero or NaN means one byte per second."""
    assert Throttle(rate).reserve(3) == pytest.approx(3.0)


def test_who_waits_is_woken_by_the_end_and_by_a_new_rate() -> None:
    """A waiting cleaner ends its wait when it is stopped, and when the rate changes."""
    stopped = Event()
    stopped.set()
    Throttle(1.0).use(10**9, stopped)
    throttle = Throttle(1.0)
    waits = []

    class RateChanges(Event):
        """An event during whose first wait the rate changes."""

        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            assert len(waits) == 1
            throttle.bytes_per_second = 1e300
            return False

    throttle.use(10**9, RateChanges())
    assert len(waits) == 1
