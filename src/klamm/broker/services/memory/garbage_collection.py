"""Keeps Python's garbage collector from scanning long-lived objects.

A broker holds hundreds of thousands of objects that live as long as a group, a topic or a connection. A full collection
scans all of them and blocks everything else: a tenth of a second with ten thousand groups. It rarely finds garbage,
because reference counting frees the objects, and the code avoids cycles or breaks them on purpose.

So objects that have survived two young collections are hidden from the collector (`gc.freeze`). A full collection looks
for cycles when the process has been quiet for a minute, at most once an hour. If the process is never quiet, it runs
once a day.

A young collection scans every element of a list created since the last collection, and the lists of a large request
are long: this has taken 30 ms on a busy machine. Work on such a request runs in steps. If a step ran since the last
collection, all objects are frozen before the next one. So a collection never scans a longer list than one that was
created in a single step.

With Python's default, a collection of the second generation follows ten collections of the first, and takes up to 5 ms.
Here it follows four collections. No object is scanned more often because of this.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from typing import Any, Final

from klamm.broker.time_slices import turns_given

__all__ = ["GarbageCollection"]

_logger = logging.getLogger(__name__)

LOOK_S: Final = 60.0
HOUR_S: Final = 3600.0
_DAY_S: Final = 24 * HOUR_S
_YOUNG_COLLECTIONS: Final = 4
"""Collections of the youngest generation before one that includes the second generation."""
QUIET_SHARE: Final = 0.05
"""Share of a core. A process that used less since the last check is quiet."""
_OLD: Final = 1
"""The generation whose survivors have survived two collections."""


class GarbageCollection:
    """Controls the collector of a process that only runs a broker, from `start` to `stop`."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        self._collected_s = 0.0
        self._looked_s = 0.0
        self._used_s = 0.0
        self._thresholds = gc.get_threshold()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns_seen = 0

    def start(self) -> None:
        """Freezes all objects that exist now, so that later collections skip them. Runs in the broker's event loop."""
        self._loop = asyncio.get_running_loop()
        self._collected_s = self._looked_s = time.monotonic()
        self._used_s = time.process_time()
        gc.freeze()
        gc.callbacks.append(self._on_collection)
        self._thresholds = gc.get_threshold()
        if sys.version_info < (3, 14):  # The threshold means something else from 3.14 on.
            gc.set_threshold(self._thresholds[0], _YOUNG_COLLECTIONS, self._thresholds[2])
        gc.enable()
        self._handle = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Restores the collector's thresholds and unfreezes all objects."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            gc.callbacks.remove(self._on_collection)
            gc.set_threshold(*self._thresholds)
            gc.unfreeze()

    def collect(self) -> int:
        """Collects all objects, then freezes the rest. Returns the number of unreachable objects found."""
        self._has_worked()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        self._collected_s = time.monotonic()
        _logger.debug("a full garbage collection found %d unreachable objects", found)
        return found

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        begins = phase == "start"
        if (begins and self._has_worked()) or (not begins and info["generation"] >= _OLD):
            gc.freeze()

    def _has_worked(self) -> bool:
        """Returns whether steps of larger work have run since the last call."""
        assert self._loop is not None
        seen, self._turns_seen = self._turns_seen, turns_given(self._loop)
        return self._turns_seen != seen

    def _look(self) -> None:
        self._handle = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        now_s, used_s = time.monotonic(), time.process_time()
        is_quiet = used_s - self._used_s < QUIET_SHARE * (now_s - self._looked_s)
        self._looked_s, self._used_s = now_s, used_s
        waited_s = now_s - self._collected_s
        if waited_s >= _DAY_S or (is_quiet and waited_s >= HOUR_S):
            self.collect()
