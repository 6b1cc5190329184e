"""I19 and the first part of I26: who stops reading, and that no record is passed over.

What a group has read of a partition has no gap: a member that goes on where the group left off goes on at or below the
end of what was read. At the end everything has been read.

I19 is judged in the calm after the faults: of two members' worlds before and after one change, what a member had before
and has after it never stopped reading in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from tests.simulation.notes import in_words
from tests.simulation.topics import DataPartition
from tests.simulation.violation import Violation

__all__ = ["Judged", "Reading"]


class _Stop(NamedTuple):
    group_id: str
    member: str
    partition: DataPartition
    at_ms: float
    is_told: bool


class Judged(Enum):
    """Which stops count: eager members always stop, and what members are told to give up may come back later."""

    NOT = "not"
    WHAT_IS_LOST = "what is lost"


class Reading:
    """What members own and have read."""

    def __init__(self) -> None:
        self.read: dict[tuple[str, DataPartition], int] = {}
        """Up to which offset a group has read a partition from its beginning."""
        self.owned: dict[tuple[str, str], frozenset[DataPartition]] = {}
        """What each running member of a group owns, as it believes itself."""
        self._before: dict[tuple[str, str], frozenset[DataPartition]] | None = None
        self._stops: list[_Stop] = []

    def on_read(self, group_id: str, member: str, partition: DataPartition, start: int, end: int) -> None:
        """A member has read records."""
        key = (group_id, partition)
        read = self.read.get(key, 0)
        if start > read:
            raise Violation(
                26, f"{member} reads {in_words(partition)} from {start} on; {group_id} has read it up to {read} only"
            )
        if end > read:
            self.read[key] = end

    def on_owned(self, group_id: str, member: str, partitions: frozenset[DataPartition]) -> None:
        """A member owns these partitions now."""
        self.owned[group_id, member] = partitions

    def on_stopped(
        self, group_id: str, member: str, partitions: frozenset[DataPartition], at_ms: float, *, is_told: bool
    ) -> None:
        """A member reads these no more: it was told so by an assignment, or has lost them."""
        if self._before is not None:
            self._stops += [_Stop(group_id, member, partition, at_ms, is_told) for partition in sorted(partitions)]

    def begin_change(self) -> None:
        """Everybody is at rest, and something is about to change."""
        self._before = dict(self.owned)
        self._stops.clear()

    def end_change(self, change: str, judged: Mapping[str, Judged]) -> None:
        """Everybody is at rest again: whoever kept a partition never stopped reading it."""
        before, self._before = self._before, None
        assert before is not None
        for stop in self._stops:
            if judged[stop.group_id] is Judged.NOT or (judged[stop.group_id] is Judged.WHAT_IS_LOST and stop.is_told):
                continue
            key = (stop.group_id, stop.member)
            if stop.partition in before.get(key, ()) and stop.partition in self.owned.get(key, ()):
                raise Violation(
                    19,
                    f"{stop.member} stopped reading {in_words(stop.partition)} at {stop.at_ms:.0f} ms, when {change}",
                )
