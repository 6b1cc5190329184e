"""Decides when a query that failed starts again. Pure: time is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Restarts"]

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_DOUBLINGS: Final = 6
"""After so many, the pause is the longest."""


@dataclass(slots=True)
class Restarts:
    """The restarts of one query since its last finished micro-batch."""

    limit: int
    """After this many restarts in a row the next failure is final."""
    count: int = 0
    total: int = 0
    """All restarts of this run."""

    def progressed(self) -> None:
        """Notes a finished micro-batch."""
        self.count = 0

    def next_start(self, now: float) -> float | None:
        """Notes a failure and returns the time of the restart; None if the query stays stopped.

        The pauses are 1, 2, 4 … seconds, at most a minute.
        """
        if self.count >= self.limit:
            return None
        self.count += 1
        self.total += 1
        doublings = min(self.count - 1, _DOUBLINGS)  # 2.0 ** 1024 is an error
        return now + min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0**doublings)
