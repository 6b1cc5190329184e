"""When a record whose handler failed is handled again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Retry"]


@dataclass(frozen=True, slots=True)
class Retry:
    """How many times a record is tried, and how long a failed record waits.

    Only the record's key waits; other keys go on. All times are in seconds.
    """

    attempts: int = 5
    """How many times the handler is called for a record that fails, the first call included. A record of a batch that
    failed is called once alone in any case.
    """
    backoff: Literal["exponential", "fixed"] = "exponential"
    """With `exponential`, each wait is twice as long as the one before it."""
    first: float = 0.1
    """The wait after the first failure."""
    most: float = 30.0
    """The longest wait."""
    deadline: float | None = None
    """The time that a record may take from its first call on. The wait that would exceed it is not begun. A batch has
    this time too; if it fails, the time of each record counts from its first call alone.
    """

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts={self.attempts}: a record is handled at least once")
        if self.backoff not in ("exponential", "fixed"):
            raise ValueError(f"backoff={self.backoff!r}: choose 'exponential' or 'fixed'")
        if self.first < 0 or self.most < 0 or (self.deadline is not None and self.deadline <= 0):
            raise ValueError("first and most are times of at least 0 seconds, deadline is more than 0")

    def delay_ms(self, failures: int) -> float:
        """Returns how long a record waits after its failure number `failures`."""
        growth = 2.0 ** min(failures - 1, 64) if self.backoff == "exponential" else 1.0
        return min(self.first * growth, self.most) * 1000

    def deadline_ms(self, started_ms: float) -> float | None:
        """Returns when a record must be finished whose first call begins at `started_ms`."""
        return None if self.deadline is None else started_ms + self.deadline * 1000
