"""Decides when the lingering commits of one partition are written.

Theory of operation. Adaptive, as in Kafka: a single commit is written at once. When a second commit comes within the
same iteration of the event loop, the partition becomes busy. From then on commits wait for the end of the iteration,
when all readable requests have been read, and are written together. An iteration with one commit or none ends the busy
phase. So no clock is involved: a client that is alone never waits, and under more load an iteration takes longer and
brings more commits.

With a linger time in milliseconds commits wait that long for others; with 0 no commit waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.runtime.ports import Cancellable, Timers

__all__ = ["ADAPTIVE", "Linger"]

ADAPTIVE: Final = -1


class Linger:
    """Decides whether the commits of one partition linger, and calls `flush` when they have to be written."""

    __slots__ = ("_commits_in_turn", "_due", "_flush", "_is_busy", "_linger_ms", "_timers")

    def __init__(self, linger_ms: int, timers: Timers, flush: Callable[[], None]) -> None:
        self._linger_ms = linger_ms
        self._timers = timers
        self._flush = flush
        self._due: Cancellable | None = None
        self._commits_in_turn = 0
        self._is_busy = False

    def admits(self) -> bool:
        """Returns whether the commit that has just been decided lingers; if so, `flush` will be called."""
        if self._linger_ms == ADAPTIVE:
            self._commits_in_turn += 1
            if self._due is None:
                self._due = self._timers.call_soon(self._on_end_of_turn)
            return self._is_busy or self._commits_in_turn > 1
        if self._linger_ms > 0 and self._due is None:
            self._due = self._timers.call_at(self._timers.now_ms() + self._linger_ms, self._on_due)
        return self._linger_ms > 0

    def note_flush(self) -> None:
        """Notes that no commit lingers any more: the next commit gets its full linger time."""
        if self._linger_ms > 0:
            self.stop()

    def stop(self) -> None:
        """Cancels the pending call of `flush`; the next admitted commit schedules a new one."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _on_end_of_turn(self) -> None:
        self._due = None
        self._is_busy = self._commits_in_turn > 1
        self._commits_in_turn = 0
        self._flush()

    def _on_due(self) -> None:
        self._due = None
        self._flush()
