"""Logs the progress of the recovery of a data directory.

Source: `LogManager.loadLogs` of Apache Kafka 4.3, which writes a line for each log; here it is a line every few
seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

__all__ = ["RecoveryProgress"]

_logger = logging.getLogger(__name__)

_INTERVAL_S: Final = 5.0
"""The time between two lines. A shorter recovery writes no such line."""


class RecoveryProgress:
    """Counts the bytes and partitions that the recovery threads have finished. Any thread may call it."""

    __slots__ = ("_bytes", "_clock", "_directory", "_done", "_lock", "_next_s", "_partitions", "_started_s")

    def __init__(self, directory: Path, partitions: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._partitions = partitions
        self._done = 0
        self._bytes = 0
        self._clock = clock
        self._started_s = clock()
        self._next_s = self._started_s + _INTERVAL_S
        self._lock = Lock()

    def read(self, size_bytes: int) -> None:
        """Adds bytes that were read and checked."""
        with self._lock:
            self._bytes += size_bytes
            self._tell()

    def loaded(self) -> None:
        """Adds a partition that is ready or offline."""
        with self._lock:
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        now_s = self._clock()
        if now_s >= self._next_s and self._done < self._partitions:
            self._next_s = now_s + _INTERVAL_S
            _logger.info(
                "recovering %s after a crash: %d of %d partitions are ready, %.0f MB were read in %.0f s",
                self._directory,
                self._done,
                self._partitions,
                self._bytes / 1e6,
                now_s - self._started_s,
            )
