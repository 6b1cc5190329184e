"""Measures since when one record holds up the commit of its partition.

This is not the age of the record: with a backlog, each record is old when its turn comes, although the commit rises all
the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.core.delivery.work import Work

__all__ = ["HoldUp"]


class HoldUp:
    """The record at the position of one partition, and since when it is there.

    Positions rise without a clock, so `look` is called often.
    """

    __slots__ = ("_looked_ms", "_since_ms", "_work")

    def __init__(self) -> None:
        self._work: Work | None = None
        self._since_ms = self._looked_ms = 0.0

    def since_ms(self, work: Work) -> float:
        """Returns the time since which the record at the position is there.

        The time is not earlier than the last look that saw another record there.
        """
        return self._since_ms if work is self._work else max(work.received_ms, self._looked_ms)

    def look(self, work: Work | None, now_ms: float) -> None:
        """Notes which record is at the position now."""
        if work is not None and work is not self._work:
            self._since_ms, self._work = self.since_ms(work), work
        self._looked_ms = now_ms
