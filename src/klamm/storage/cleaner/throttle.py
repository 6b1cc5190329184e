"""A bound on the bytes that all cleaners together read and write in a second (`log.cleaner.io.max.bytes.per.second`).

Source: `server/util/Throttler.java` of Apache Kafka 4.3, which looks at the rate in windows of 300 ms. Here every use
is put on an account that pays itself back with time, so that no window begins with a burst.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Event, Lock

__all__ = ["Throttle"]


class Throttle:
    """Makes the threads that use it wait, each as long as what it used takes at the rate given.

    `bytes_per_second` may change at any time; infinity, or anything as good as that, is no bound.
    """

    __slots__ = ("_free_at_s", "_lock", "_now_s", "bytes_per_second")

    def __init__(self, bytes_per_second: float = math.inf, now_s: Callable[[], float] = time.monotonic) -> None:
        self.bytes_per_second = bytes_per_second
        self._now_s = now_s
        self._lock = Lock()
        self._free_at_s = -math.inf

    def reserve(self, size_bytes: int) -> float:
        """Puts so many bytes on the account; how many seconds to wait until all of them are paid for."""
        cost_s = size_bytes / self.bytes_per_second
        if cost_s < 1e-12:
            return 0.0
        with self._lock:
            now_s = self._now_s()
            self._free_at_s = max(self._free_at_s, now_s) + cost_s
            return self._free_at_s - now_s

    def use(self, size_bytes: int, stopped: Event) -> None:
        """As `reserve`, and waits; returns at once when `stopped` is set."""
        delay_s = self.reserve(size_bytes)
        if delay_s > 0:
            stopped.wait(delay_s)
