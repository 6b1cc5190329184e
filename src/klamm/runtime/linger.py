"""When the commits of one partition that may linger are written.

Theory of operation. Adaptive, as Kafka's: a commit that comes alone is written at once. When a second one comes within
the same turn of the event loop, the partition is busy: from then on commits wait for the end of the turn, when whoever
could be heard has been heard, and are written together. A turn that brought one commit or none is the last busy one.
So there is no clock in it: a client that is alone never waits, and the more there is to do, the longer a turn takes and
the more commits it brings.

With a bound in milliseconds every commit waits so long for others, and with 0 none waits at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.runtime.ports import Cancellable, Timers

__all__ = ["ADAPTIVE", "Linger"]

ADAPTIVE: Final = -1


class Linger:
    """Says for the commits of one partition whether they linger; `flush` is called when they are to be written."""

    __slots__ = ("_commits_in_turn", "_due", "_flush", "_is_busy", "_linger_ms", "_timers")

    def __init__(self, linger_ms: int, timers: Timers, flush: Callable[[], None]) -> None:
        self._linger_ms = linger_ms
        self._timers = timers
        self._flush = flush
        self._due: Cancellable | None = None
        self._commits_in_turn = 0
        self._is_busy = False

    def admits(self) -> bool:
        """Whether the commit that has just been decided is to linger; if so, `flush` will be called."""
        if self._linger_ms == ADAPTIVE:
            self._commits_in_turn += 1
            if self._due is None:
                self._due = self._timers.call_soon(self._on_end_of_turn)
            return self._is_busy or self._commits_in_turn > 1
        if self._linger_ms > 0 and self._due is None:
            self._due = self._timers.call_at(self._timers.now_ms() + self._linger_ms, self._on_due)
        return self._linger_ms > 0

    def note_flush(self) -> None:
        """Nothing lingers any more: the next commit has its full time again."""
        if self._linger_ms > 0:
            self.stop()

    def stop(self) -> None:
        """`flush` will not be called, unless another commit is admitted."""
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
