"""I19 and the first part of I26: which members stop reading, and that no record is skipped.

The records that a group has read of a partition have no gap. A member that continues begins at or below the end of what
the group has read. At the end the group has read all records.

I19 is checked in the calm after the faults. A member that has a partition before and after a change never stopped
reading it in between.
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
    """Which stops count: eager members always stop, and a partition that was taken away may come back later."""

    NOT = "not"
    WHAT_IS_LOST = "what is lost"


class Reading:
    """The partitions that members own, and what groups have read."""

    def __init__(self) -> None:
        self.read: dict[tuple[str, DataPartition], int] = {}
        """The offset up to which a group has read a partition, from its beginning."""
        self.owned: dict[tuple[str, str], frozenset[DataPartition]] = {}
        """The partitions that each running member of a group owns, as the member believes."""
        self._before: dict[tuple[str, str], frozenset[DataPartition]] | None = None
        self._stops: list[_Stop] = []

    def on_read(self, group_id: str, member: str, partition: DataPartition, start: int, end: int) -> None:
        """Records that a member has read records, and checks that it skipped none."""
        key = (group_id, partition)
        read = self.read.get(key, 0)
        if start > read:
            raise Violation(
                26, f"{member} reads {in_words(partition)} from {start} on; {group_id} has read it up to {read} only"
            )
        if end > read:
            self.read[key] = end

    def on_owned(self, group_id: str, member: str, partitions: frozenset[DataPartition]) -> None:
        """Records the partitions that a member owns now."""
        self.owned[group_id, member] = partitions

    def on_stopped(
        self, group_id: str, member: str, partitions: frozenset[DataPartition], at_ms: float, *, is_told: bool
    ) -> None:
        """Records that a member stops reading partitions, because an assignment told it so, or because it lost them."""
        if self._before is not None:
            self._stops += [_Stop(group_id, member, partition, at_ms, is_told) for partition in sorted(partitions)]

    def begin_change(self) -> None:
        """Begins a change, while no group rebalances."""
        self._before = dict(self.owned)
        self._stops.clear()

    def end_change(self, change: str, judged: Mapping[str, Judged]) -> None:
        """Ends a change, when no group rebalances any more: checks that no kept partition was without its reader."""
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
