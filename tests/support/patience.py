"""Time limits that grow with the load: work of one minute on an idle machine may take ten on a shared machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Final

__all__ = ["Limit", "slowness"]

_ITERATIONS: Final = 100_000
_IDLE_S: Final = 0.004
"""The duration of these iterations on an idle machine of 2024."""
_MEASUREMENTS: Final = 15
_PAUSE_S: Final = 0.01


def slowness() -> float:
    """Returns how many times longer work takes on this machine now than on an idle machine; at least 1.

    The measurement takes a fraction of a second, and longer on a busy machine.
    """
    took = []
    for _ in range(_MEASUREMENTS):
        # The pauses let other processes run, as between the steps of a client.
        time.sleep(_PAUSE_S)
        began = time.perf_counter()
        number = 0
        for step in range(_ITERATIONS):
            number = (number * 31 + step) & 0xFFFF
        took.append(time.perf_counter() - began)
    return max(1.0, median(took) / _IDLE_S)


class Limit:
    """A time limit that is over when there was no progress for this number of seconds of an idle machine.

    The speed of the machine is measured only when the time seems to be over, so a test without delays measures nothing.
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
        """Records progress, which starts the time again."""
        self._began = self._clock()

    @property
    def is_over(self) -> bool:
        """Whether the time is over, with the slowness of this machine taken into account."""
        if self._left() > 0:
            return False
        self._stretch = max(self._stretch, self._measure())
        return self._left() <= 0

    @property
    def left_s(self) -> float:
        """The seconds that are left according to the last measurement of the machine; at least 0."""
        return max(0.0, self._left())

    def _left(self) -> float:
        return self._began + self._seconds * self._stretch - self._clock()
