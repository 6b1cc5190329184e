"""Python's garbage collector, kept from looking at what lives long.

A broker holds hundreds of thousands of objects that live as long as a group, a topic or a connection does. A full
collection walks over all of them and nothing else happens meanwhile: a tenth of a second with ten thousand groups. It
hardly ever finds anything, for objects here go when nobody refers to them any more, and cycles are avoided or broken
on purpose.

So whatever has survived two young collections is taken out of the collector's sight (`gc.freeze`). What may have become
a cycle all the same is looked for when the process has been quiet for a minute, once an hour at most, or, if it never
is quiet, once a day.

A young collection looks at every element of a list that was made since the last one, and the lists of a large request
are long: it has taken 30 ms on a busy machine. Work on such a request goes in steps, and where there was one since the
last collection, what there is by then is taken out of the collector's sight at once. So it never sees a longer list
than one that was made in a single step.

A second young collection takes up to 5 ms when ten first ones have come before it, which is Python's rule; so it comes
after four. Nothing is looked at more often for that.
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

logger = logging.getLogger(__name__)

LOOK_S: Final = 60.0
HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
YOUNG_COLLECTIONS: Final = 4
"""So many collections of the youngest objects come before those that survived them are looked at, too."""
QUIET_SHARE: Final = 0.05
"""Of a core: a process that used less since the last look is quiet."""
OLD: Final = 1
"""The generation whose survivors have seen two collections."""


class GarbageCollection:
    """For a process that is a broker and nothing else, from `start` to `stop`."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        self._collected_s = 0.0
        self._looked_s = 0.0
        self._used_s = 0.0
        self._thresholds = gc.get_threshold()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns_seen = 0

    def start(self) -> None:
        """What there is now stays. To be called in the broker's event loop."""
        self._loop = asyncio.get_running_loop()
        self._collected_s = self._looked_s = time.monotonic()
        self._used_s = time.process_time()
        gc.freeze()
        gc.callbacks.append(self._on_collection)
        self._thresholds = gc.get_threshold()
        if sys.version_info < (3, 14):  # Where it means something else.
            gc.set_threshold(self._thresholds[0], YOUNG_COLLECTIONS, self._thresholds[2])
        gc.enable()
        self._handle = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Everything is the collector's again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            gc.callbacks.remove(self._on_collection)
            gc.set_threshold(*self._thresholds)
            gc.unfreeze()

    def collect(self) -> int:
        """Looks at everything; returns how many objects only referred to each other."""
        self._has_worked()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        self._collected_s = time.monotonic()
        logger.debug("%d objects that only referred to each other were found", found)
        return found

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        begins = phase == "start"
        if (begins and self._has_worked()) or (not begins and info["generation"] >= OLD):
            gc.freeze()

    def _has_worked(self) -> bool:
        """Whether there were steps of larger work since this was asked last."""
        assert self._loop is not None
        seen, self._turns_seen = self._turns_seen, turns_given(self._loop)
        return self._turns_seen != seen

    def _look(self) -> None:
        self._handle = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        now_s, used_s = time.monotonic(), time.process_time()
        is_quiet = used_s - self._used_s < QUIET_SHARE * (now_s - self._looked_s)
        self._looked_s, self._used_s = now_s, used_s
        waited_s = now_s - self._collected_s
        if waited_s >= DAY_S or (is_quiet and waited_s >= HOUR_S):
            self.collect()
