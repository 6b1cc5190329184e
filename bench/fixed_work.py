"""How much longer than usual a fixed piece of Python work takes on this machine: the noise in a longest step.

A processor that other machines share, or that loses its caches, adds to the processor time of a thread. So a long step
shows something about the code only if it comes back in every round.
"""

from __future__ import annotations

import gc
import time
from typing import NamedTuple

__all__ = ["FixedWork", "measure_fixed_work"]

_SECONDS = 10.0
_WORK_MS = 5.0
_CALIBRATIONS = 50


class FixedWork(NamedTuple):
    """Processor time of the same work, repeated, in milliseconds."""

    median_ms: float
    longest_ms: float


def measure_fixed_work(seconds: float = _SECONDS) -> FixedWork:
    """Repeats work of about 5 ms for `seconds`, without garbage collections; returns the median and the maximum
    time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        size = 1000
        milliseconds = sorted(_timed(size) for _ in range(_CALIBRATIONS))
        size = int(size * _WORK_MS / milliseconds[_CALIBRATIONS // 2])
        milliseconds.clear()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            milliseconds.append(_timed(size))
    finally:
        if was_enabled:
            gc.enable()
    milliseconds.sort()
    return FixedWork(milliseconds[len(milliseconds) // 2], milliseconds[-1])


def _timed(size: int) -> float:
    start = time.thread_time()
    table = {}
    for number in range(size):
        table[(number, f"t{number & 1023}")] = [number, None]
    return (time.thread_time() - start) * 1000
