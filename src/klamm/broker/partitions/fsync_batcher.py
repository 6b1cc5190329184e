"""Syncs many logs to the disk at once (group commit): requests that arrive together share a sync.

Each log has at most one sync in progress. Records appended meanwhile share the next sync, so a slower disk makes each
sync cover more requests. Syncs of several logs run in parallel, and the file system's journal writes them as one.
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
    from klamm.storage.log.flush import Flush
    from klamm.storage.log.log import Log

__all__ = ["FsyncBatcher"]

_logger = logging.getLogger(__name__)

_THREADS: Final = 16
"""Number of logs that are synced at once. The threads wait for the disk and use no processor time."""

_RETRY_S: Final = 0.5
"""Delay before a retry if a sync could not be started, for example because no file descriptor was free."""


class FsyncBatcher:
    """Syncs logs on its own threads. All other work runs on the event loop that is passed to it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], Millis],
        *,
        threads: int = _THREADS,
        on_tails_synced: Callable[[], None] | None = None,
    ) -> None:
        """Creates the threads. `on_tails_synced` is called on the loop when all logs of `request_tail` are synced."""
        self._loop = loop
        self._on_tails_synced = on_tails_synced
        self._tails: set[Log] = set()
        self._clock = clock
        self._limit = threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="klamm-sync")
        self._waiting: dict[Log, tuple[Callable[[], None], ...]] = {}
        self._running: dict[Log, tuple[Callable[[], None], ...]] = {}
        self._ended: list[Log] = []
        self._lock = Lock()
        self._is_scheduled = False
        self._is_stopped = False

    def request(self, log: Log, done: Callable[[], None]) -> None:
        """Syncs everything that the log holds now, then calls `done` on the loop.

        The log shows the outcome: its `recovery_point` has advanced, or it is offline. A `done` that several requests
        pass is called once for all of them that a sync covers.
        """
        waiting = self._waiting.get(log, ())
        if done not in waiting:
            self._waiting[log] = (*waiting, done)
        if len(self._running) < self._limit:
            self._schedule()  # Later callbacks of this loop iteration may add requests to the same sync.

    def request_tail(self, log: Log, done: Callable[[], None]) -> None:
        """Requests a sync, as `request`, for a log that was opened with an end that may not be on the disk."""
        self._tails.add(log)
        self.request(log, done)

    def stop(self) -> None:
        """Starts no more syncs and calls no more callbacks; returns when the running syncs have ended."""
        self._is_stopped = True
        self._waiting.clear()
        self._threads.shutdown(wait=True)

    def _begin(self) -> None:
        self._is_scheduled = False
        free = self._limit - len(self._running)
        if self._is_stopped or free <= 0:
            return
        # `islice` stays short: at most as many logs as there are running syncs are skipped.
        for log in list(islice((log for log in self._waiting if log not in self._running), free)):
            if log.is_offline:
                self._tails.discard(log)
                for done in self._waiting.pop(log):
                    done()
                continue
            flush = log.durability.begin_flush(self._clock())
            if flush is None:
                self._loop.call_later(_RETRY_S, self._begin)
                return
            self._running[log] = self._waiting.pop(log)
            self._threads.submit(self._run, log, flush)
        if self._waiting and not self._running:
            # All logs of this turn were offline, so no end of a sync begins the next turn.
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._begin)

    def _run(self, log: Log, flush: Flush) -> None:
        try:
            flush.run()
        except Exception:
            _logger.exception("a sync of %s ended in an unexpected way", log)
            log.mark_offline("a sync ended in an unexpected way")
        with self._lock:
            self._ended.append(log)
            is_first = len(self._ended) == 1
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop may be closed while the last syncs end
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
        for log in ended:
            for done in self._running.pop(log):
                if not self._is_stopped:
                    done()
        if self._tails and not self._is_stopped:
            self._tails.difference_update(ended)
            if not self._tails and self._on_tails_synced is not None:
                self._on_tails_synced()
        if self._waiting:
            self._schedule()
