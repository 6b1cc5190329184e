"""Time limits that stretch with the machine: what takes a minute on an idle one may take ten on one that is shared."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Final

__all__ = ["Limit", "slowness"]

_ITERATIONS: Final = 100_000
_IDLE_S: Final = 0.004
"""How long that takes on an idle machine of 2024."""
_MEASUREMENTS: Final = 15
_PAUSE_S: Final = 0.01


def slowness() -> float:
    """How many times longer a piece of work takes here and now than on an idle machine; at least 1.

    Takes a fraction of a second, and on a busy machine longer.
    """
    took = []
    for _ in range(_MEASUREMENTS):
        # Between the pieces others get their turn, as between the steps of a client.
        time.sleep(_PAUSE_S)
        began = time.perf_counter()
        number = 0
        for step in range(_ITERATIONS):
            number = (number * 31 + step) & 0xFFFF
        took.append(time.perf_counter() - began)
    return max(1.0, median(took) / _IDLE_S)


class Limit:
    """Is over when nothing has progressed for so many seconds of an idle machine.

    The machine is measured when the time seems to be over, so that no measurement is made where all is well.
    """

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        measure: Callable[[], float] = slowness,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._measure = measure
        self._stretch = 1.0
        self._began = clock()

    def progressed(self) -> None:
        """The time begins again."""
        self._began = self._clock()

    @property
    def is_over(self) -> bool:
        """Whether the time is over, also on a machine as slow as this one has been."""
        if self._left() > 0:
            return False
        self._stretch = max(self._stretch, self._measure())
        return self._left() <= 0

    @property
    def left_s(self) -> float:
        """How many seconds are left, as far as it is known how slow the machine is; at least 0."""
        return max(0.0, self._left())

    def _left(self) -> float:
        return self._began + self._seconds * self._stretch - self._clock()
