"""Work of a shard that would hold the event loop for too long, done a little at a time.

A chore is an iterator of results: between two of them others have their turn, so whatever it looked at before may have
changed, and it has to look again. Several chores take turns, so that a long one holds nobody up. They end with
leadership; each is of a kind that the next coordinator begins anew, or that its client asks for again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from klamm.core.coordinator.shard_contract import Result, TimerKey
from klamm.protocol.types import Millis

__all__ = ["CHORES_TIMER", "Chores"]

CHORES_TIMER: Final[TimerKey] = ("chores",)


class Chores:
    """The chores of one shard. Its timer has to be handed to `step`."""

    __slots__ = ("_chores", "now")

    def __init__(self) -> None:
        self._chores: deque[Iterator[Result]] = deque()
        self.now = Millis(0)
        """When the present step is made: a chore outlives the moment at which it began."""

    def __len__(self) -> int:
        return len(self._chores)

    def add(self, chore: Iterator[Result], result: Result) -> None:
        """Begin a chore soon: nothing of it is done before the next step."""
        self._chores.append(chore)
        result.arm(CHORES_TIMER, 0)

    def step(self, now: Millis) -> Result:
        """A little of the chore whose turn it is."""
        self.now = now
        while self._chores:
            chore = self._chores.popleft()
            result = next(chore, None)
            if result is not None:
                self._chores.append(chore)
                result.arm(CHORES_TIMER, 0)
                return result
        return Result()
