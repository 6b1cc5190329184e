"""How fast a group's partitions grow and are read, computed from successive snapshots."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from klamm.insight.group.group_snapshot import Snapshot
from klamm.insight.words import PartitionKey

__all__ = ["Rate", "Rates"]

_WINDOW_MS: Final = 10_000


class Rate(NamedTuple):
    """Records per second; None if not known yet."""

    arriving: float | None
    committed: float | None


class Rates:
    """The rates over the snapshots of the last ten seconds."""

    def __init__(self) -> None:
        self._snapshots: deque[Snapshot] = deque()

    def add(self, snapshot: Snapshot) -> None:
        """Adds a snapshot, which must be later than the previous ones."""
        self._snapshots.append(snapshot)
        while len(self._snapshots) > 2 and self._snapshots[1].at_ms <= snapshot.at_ms - _WINDOW_MS:
            self._snapshots.popleft()

    def of(self, key: PartitionKey) -> Rate:
        """Returns the rates of one partition: how fast it grows, and how fast the group finishes records."""
        if len(self._snapshots) < 2:
            return Rate(None, None)
        first, last = self._snapshots[0], self._snapshots[-1]
        seconds = (last.at_ms - first.at_ms) / 1000
        if seconds <= 0:
            return Rate(None, None)
        ends = (first.ends.get(key), last.ends.get(key))
        done = (first.done(key), last.done(key))
        return Rate(
            _per_second(ends[0] and ends[0][1], ends[1] and ends[1][1], seconds),
            _per_second(done[0], done[1], seconds),
        )

    def total(self) -> Rate:
        """Returns the sums over all partitions."""
        rates = [self.of(key) for key in self._snapshots[-1].partitions] if self._snapshots else []
        arriving = [rate.arriving for rate in rates if rate.arriving is not None]
        committed = [rate.committed for rate in rates if rate.committed is not None]
        return Rate(sum(arriving) if arriving else None, sum(committed) if committed else None)


def _per_second(before: int | None, after: int | None, seconds: float) -> float | None:
    """Returns the rate of increase. A decrease counts as zero: a commit that was reset to an earlier offset."""
    return None if before is None or after is None else max(0, after - before) / seconds
