"""A group that is looked at again and again: its picture, its history, its rates."""

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
from klamm.insight.coordinator_state import ReplayedGroup
from klamm.insight.coordinator_tail import CoordinatorTail
from klamm.insight.errors import ClusterError
from klamm.insight.group_rates import Rates
from klamm.insight.group_snapshot import GroupObserver, Snapshot
from klamm.insight.history_reader import HistoryReader
from klamm.insight.member_names import MemberNames

__all__ = ["GroupWatcher", "WatchedGroup"]

# A user who watches a group wants to see soon that the cluster does not answer.
PATIENCE_S: Final = 3.0
HISTORY_PATIENCE_S: Final = 5.0
HISTORY_MS: Final = 86_400_000
KEPT_CHANGES: Final = 16


@dataclass(slots=True)
class WatchedGroup:
    """All that is known of a group as of the last look."""

    group_id: str
    names: MemberNames
    rates: Rates = field(default_factory=Rates)
    snapshot: Snapshot | None = None
    """None while there is no such group."""
    replayed: ReplayedGroup | None = None
    history: Sequence[HistoryRecord] = ()
    """The last changes, the oldest first."""
    problem: str | None = None
    """Why the last look brought nothing new."""


class GroupWatcher:
    """Keeps what is known of a group up to date."""

    def __init__(self, access: ClusterAccess, group: str) -> None:
        """Connects, and begins with the last day of the history.

        Raises ClusterError when the cluster can't be reached.
        """
        with contextlib.ExitStack() as stack:
            self._observer = GroupObserver(access, group, patience_s=PATIENCE_S)
            stack.callback(self._observer.close)
            self._history = HistoryReader(access, group, follow=True)
            stack.callback(self._history.close)
            self._tail = CoordinatorTail(access, group, follow=True)
            stack.callback(self._tail.close)
            self._history.start(time.time_ns() // 1_000_000 - HISTORY_MS)
            self._closing = stack.pop_all()
        self.seen = WatchedGroup(group, self._history.names)
        self.new_changes: list[HistoryRecord] = []
        """Those that the last look has brought."""
        self._past: deque[HistoryRecord] = deque(maxlen=KEPT_CHANGES)
        self._patience_s = HISTORY_PATIENCE_S

    def close(self) -> None:
        """Ends the connections."""
        self._closing.close()

    def look_again(self) -> None:
        """Brings everything up to date; a cluster that doesn't answer is a thing to watch too."""
        try:
            self.look()
            self.seen.problem = None
        except KlammError as error:
            self.new_changes = []
            self.seen.problem = str(error)

    def look(self) -> Snapshot | None:
        """Brings everything up to date. Raises KlammError."""
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
        """What is new in the history; nothing, where nobody lets us read it."""
        try:
            told = self._history.available(self._patience_s)
        except ClusterError:
            return []
        self._patience_s = 0.0  # the first time everything has to come, later only what is there
        return [each.change for each in told if each.change is not None]
