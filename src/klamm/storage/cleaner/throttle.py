"""Limits the bytes per second that all cleaners together read and write (`log.cleaner.io.max.bytes.per.second`).

Source: `server/util/Throttler.java` of Apache Kafka 4.3, which checks the rate in windows of 300 ms. Here every use
adds a debt that decreases over time, so that no window begins with a burst.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Event, Lock
from typing import Final

__all__ = ["Throttle"]

_SLOWEST: Final = 1.0
"""Lowest rate, in bytes per second. Kafka accepts a rate of 0 and then never continues."""

_LONGEST_WAIT_S: Final = 0.5
"""Longest time until a change of the rate takes effect."""


class Throttle:
    """Delays each calling thread by the time that its bytes take at the configured rate.

    An infinite or very high rate means no limit.
    """

    __slots__ = ("_bytes_per_second", "_changes", "_free_at_s", "_lock", "_now_s")

    def __init__(self, bytes_per_second: float = math.inf, now_s: Callable[[], float] = time.monotonic) -> None:
        self._bytes_per_second = max(_SLOWEST, bytes_per_second)
        self._now_s = now_s
        self._lock = Lock()
        self._free_at_s = -math.inf
        self._changes = 0

    @property
    def bytes_per_second(self) -> float:
        """The rate in bytes per second."""
        return self._bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, bytes_per_second: float) -> None:
        """Sets a new rate and clears the debt that was added at the old one."""
        if bytes_per_second != self._bytes_per_second:
            with self._lock:
                self._bytes_per_second = max(_SLOWEST, bytes_per_second)
                self._free_at_s = -math.inf
                self._changes += 1

    def reserve(self, size_bytes: int) -> float:
        """Adds bytes to the debt and returns the seconds until the debt is paid."""
        cost_s = size_bytes / self._bytes_per_second
        if cost_s < 1e-12:
            return 0.0
        with self._lock:
            now_s = self._now_s()
            self._free_at_s = max(self._free_at_s, now_s) + cost_s
            return self._free_at_s - now_s

    def use(self, size_bytes: int, stopped: Event) -> None:
        """Reserves the bytes and waits. Returns at once when `stopped` is set."""
        changes = self._changes
        until_s = self._now_s() + self.reserve(size_bytes)
        while (left_s := until_s - self._now_s()) > 0 and changes == self._changes:
            if stopped.wait(min(left_s, _LONGEST_WAIT_S)):
                return
