"""Watches a group: its picture, its history and its rates."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from klamm.core.group.history.history_record import HistoryRecord
from klamm.errors import KlammError
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group.coordinator_tail import CoordinatorTail
from klamm.insight.group.group_rates import Rates
from klamm.insight.group.group_snapshot import GroupObserver, Snapshot
from klamm.insight.group.history_reader import HistoryReader
from klamm.insight.group.member_names import MemberNames
from klamm.insight.group.replayed_group import ReplayedGroup

__all__ = ["GroupWatcher", "WatchedGroup"]

# Short, so that the user soon sees that the cluster does not answer.
PATIENCE_S: Final = 3.0
_HISTORY_PATIENCE_S: Final = 5.0
_HISTORY_MS: Final = 86_400_000
_KEPT_CHANGES: Final = 16


@dataclass(slots=True)
class WatchedGroup:
    """The state of a group at the last update."""

    group_id: str
    names: MemberNames
    rates: Rates = field(default_factory=Rates)
    snapshot: Snapshot | None = None
    """None while the group does not exist."""
    replayed: ReplayedGroup | None = None
    history: Sequence[HistoryRecord] = ()
    """The last changes, oldest first."""
    problem: str | None = None
    """Why the last update found nothing new."""


class GroupWatcher:
    """Keeps a `WatchedGroup` up to date."""

    def __init__(self, access: ClusterAccess, group: str) -> None:
        """Connects and begins with the last day of the history.

        Raises ClusterError when the cluster can't be reached.
        """
        with contextlib.ExitStack() as stack:
            self._observer = GroupObserver(access, group, patience_s=PATIENCE_S)
            stack.callback(self._observer.close)
            self._history = HistoryReader(access, group, follow=True)
            stack.callback(self._history.close)
            self._tail = CoordinatorTail(access, group, follow=True)
            stack.callback(self._tail.close)
            self._history.start(time.time_ns() // 1_000_000 - _HISTORY_MS)
            self._closing = stack.pop_all()
        self.seen = WatchedGroup(group, self._history.names)
        self.new_changes: list[HistoryRecord] = []
        """The changes that the last update found."""
        self._past: deque[HistoryRecord] = deque(maxlen=_KEPT_CHANGES)
        self._patience_s = _HISTORY_PATIENCE_S

    def close(self) -> None:
        """Closes the connections."""
        self._closing.close()

    def look_again(self) -> None:
        """Updates everything. Stores an error as the group's `problem`, which is also worth watching.

        `new_changes` are complete also then: the history does not return them again.
        """
        self.new_changes = []
        try:
            self.look()
            self.seen.problem = None
        except KlammError as error:
            self.seen.problem = str(error)

    def look(self) -> Snapshot | None:
        """Updates everything and returns the snapshot; None if the group does not exist. Raises KlammError."""
        self.new_changes = self._changes()
        self._past.extend(self.new_changes)
        self.seen.history = list(self._past)
        self.seen.replayed = self._tail.update()
        self.seen.snapshot = self._observer.look()
        if self.seen.snapshot is not None:
            self._history.look_again(self.seen.snapshot.partition_counts)
            self.seen.snapshot.picture.name_members(self.seen.names)
            self.seen.rates.add(self.seen.snapshot)
        return self.seen.snapshot

    def _changes(self) -> list[HistoryRecord]:
        """Returns the new changes in the history; an empty list if the history can't be read."""
        try:
            told = self._history.available(self._patience_s)
        except ClusterError:
            return []
        self._patience_s = 0.0  # the first call waits for all records, later calls only poll
        return [each.change for each in told if each.change is not None]
