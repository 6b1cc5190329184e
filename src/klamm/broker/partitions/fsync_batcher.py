"""Bringing many logs to the disk at once (group commit): who asks in the same moment shares a sync.

One log has one sync under way at most. What is appended to it meanwhile shares the next one, so the slower the disk,
the more requests a sync answers for; and syncs of several logs run side by side, which the file system's journal
writes as one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from klamm.protocol.types import Millis
    from klamm.storage.flush import Flush
    from klamm.storage.log import Log

__all__ = ["FsyncBatcher"]

logger = logging.getLogger(__name__)

THREADS: Final = 16
"""How many logs are synced at once. They wait for the disk, and cost no processor."""

RETRY_S: Final = 0.5
"""How long to wait when a sync could not even be begun, for want of descriptors for example."""


class FsyncBatcher:
    """Syncs logs on threads of its own; everything else happens on the event loop that made it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], Millis],
        *,
        threads: int = THREADS,
        on_tails_synced: Callable[[], None] | None = None,
    ) -> None:
        """`on_tails_synced` is called on the loop when all logs are synced that `request_tail` was called for."""
        self._loop = loop
        self._on_tails_synced = on_tails_synced
        self._tails: set[Log] = set()
        self._clock = clock
        self._limit = threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="klamm-sync")
        self._waiting: dict[Log, Callable[[], None]] = {}
        self._running: dict[Log, Callable[[], None]] = {}
        self._ended: list[Log] = []
        self._lock = Lock()
        self._is_scheduled = False
        self._is_stopped = False

    def request(self, log: Log, done: Callable[[], None]) -> None:
        """Has everything synced that the log holds now, and then calls `done` on the loop.

        The log says how it went: by its `recovery_point`, or by being offline. For one log `done` is always the same;
        it is called once for all requests that a sync answers for.
        """
        self._waiting[log] = done
        if not self._is_scheduled and len(self._running) < self._limit:
            # The rest of this round of the loop may bring more for the same sync.
            self._is_scheduled = True
            self._loop.call_soon(self._begin)

    def request_tail(self, log: Log, done: Callable[[], None]) -> None:
        """The same for a log that was opened with an end of which nobody knows whether it is on the disk."""
        self._tails.add(log)
        self.request(log, done)

    def stop(self) -> None:
        """Begins nothing new and tells nobody any more; returns when what runs has run out."""
        self._is_stopped = True
        self._waiting.clear()
        self._threads.shutdown(wait=True)

    def _begin(self) -> None:
        self._is_scheduled = False
        free = self._limit - len(self._running)
        if self._is_stopped or free <= 0:
            return
        # No more than run can stand in front of those that may begin.
        for log in list(islice((log for log in self._waiting if log not in self._running), free)):
            if log.is_offline:
                self._tails.discard(log)
                self._waiting.pop(log)()
                continue
            flush = log.durability.begin_flush(self._clock())
            if flush is None:
                self._loop.call_later(RETRY_S, self._begin)
                return
            self._running[log] = self._waiting.pop(log)
            self._threads.submit(self._run, log, flush)

    def _run(self, log: Log, flush: Flush) -> None:
        try:
            flush.run()
        except Exception:
            logger.exception("a sync of %s ended in an unexpected way", log)
            log.mark_offline("a sync ended in an unexpected way")
        with self._lock:
            self._ended.append(log)
            is_first = len(self._ended) == 1
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop may be closed while the last syncs run out
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
        for log in ended:
            done = self._running.pop(log)
            if not self._is_stopped:
                done()
        if self._tails and not self._is_stopped:
            self._tails.difference_update(ended)
            if not self._tails and self._on_tails_synced is not None:
                self._on_tails_synced()
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._begin)
