"""How fast a group's partitions grow and are read, from looking at them several times."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from klamm.insight.group_snapshot import Snapshot
from klamm.insight.words import PartitionKey

__all__ = ["Rate", "Rates"]

WINDOW_MS: Final = 10_000


class Rate(NamedTuple):
    """Records a second; None where nobody can tell yet."""

    arriving: float | None
    committed: float | None


class Rates:
    """Keeps the snapshots of the last ten seconds."""

    def __init__(self) -> None:
        self._snapshots: deque[Snapshot] = deque()

    def add(self, snapshot: Snapshot) -> None:
        """Takes a snapshot, later than those before."""
        self._snapshots.append(snapshot)
        while len(self._snapshots) > 2 and self._snapshots[1].at_ms <= snapshot.at_ms - WINDOW_MS:
            self._snapshots.popleft()

    def of(self, key: PartitionKey) -> Rate:
        """The rates of one partition: how fast it grows, and how fast the group's commits go on."""
        if len(self._snapshots) < 2:
            return Rate(None, None)
        first, last = self._snapshots[0], self._snapshots[-1]
        seconds = (last.at_ms - first.at_ms) / 1000
        if seconds <= 0:
            return Rate(None, None)
        ends = (first.ends.get(key), last.ends.get(key))
        commits = (first.committed.get(key), last.committed.get(key))
        return Rate(
            _per_second(ends[0] and ends[0][1], ends[1] and ends[1][1], seconds),
            _per_second(commits[0], commits[1], seconds),
        )

    def total(self) -> Rate:
        """The sums over all partitions."""
        rates = [self.of(key) for key in self._snapshots[-1].partitions] if self._snapshots else []
        arriving = [rate.arriving for rate in rates if rate.arriving is not None]
        committed = [rate.committed for rate in rates if rate.committed is not None]
        return Rate(sum(arriving) if arriving else None, sum(committed) if committed else None)


def _per_second(before: int | None, after: int | None, seconds: float) -> float | None:
    """A commit that was reset goes backwards: that is no reading."""
    return None if before is None or after is None else max(0, after - before) / seconds
