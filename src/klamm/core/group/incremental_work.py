"""Work of a shard that takes too long for one turn of the event loop, and is therefore done in steps.

A piece of work is an iterator of results. Other requests are decided between two of its steps, so each step must read
again all state on which it depends. Several pieces of work take turns. All work ends with leadership: the next
coordinator starts it again, or the client repeats its request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from klamm.core.coordinator.shard_contract import Result, TimerKey, TimerKind
from klamm.protocol.types import Millis

__all__ = ["INCREMENTAL_WORK_TIMER", "IncrementalWork"]

INCREMENTAL_WORK_TIMER: Final = TimerKey(TimerKind("incremental work"))


class IncrementalWork:
    """All unfinished work of one shard. The shard passes its timer to `step`."""

    __slots__ = ("_unfinished", "now")

    def __init__(self) -> None:
        self._unfinished: deque[Iterator[Result]] = deque()
        self.now = Millis(0)
        """The time of the current step. Work runs over many steps, so it reads the time here."""

    def __len__(self) -> int:
        return len(self._unfinished)

    def add(self, work: Iterator[Result], result: Result) -> None:
        """Queues a piece of work; its first step runs in a later call of `step`."""
        self._unfinished.append(work)
        result.arm(INCREMENTAL_WORK_TIMER, 0)

    def step(self, now: Millis) -> Result:
        """Runs one step of the next piece of work."""
        self.now = now
        while self._unfinished:
            work = self._unfinished.popleft()
            result = next(work, None)
            if result is not None:
                self._unfinished.append(work)
                result.arm(INCREMENTAL_WORK_TIMER, 0)
                return result
        return Result()
