"""Tests a watched group whose cluster fails for a moment."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.insight.pictures import group, history_of, member, snapshot

from klamm.core.group.history.history_record import HistoryRecord
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group import group_watcher
from klamm.insight.group.group_snapshot import Snapshot
from klamm.insight.group.group_watcher import GroupWatcher
from klamm.insight.group.history_reader import Told
from klamm.insight.group.member_names import MemberNames


class _Cluster:
    """An observer, a history and a tail of the log: each look takes what the test has set."""

    def __init__(self) -> None:
        self.names = MemberNames()
        self.changes: list[HistoryRecord] = []
        self.is_down = False

    def start(self, since_ms: int) -> None:
        pass

    def close(self) -> None:
        pass

    def available(self, patience_s: float) -> list[Told]:
        """Returns each change once, as a consumer does."""
        found, self.changes = self.changes, []
        return [Told(0, None, change, [], None) for change in found]

    def look_again(self, partition_counts: object) -> None:
        pass

    def update(self) -> None:
        return None

    def look(self) -> Snapshot:
        if self.is_down:
            raise ClusterError("no answer")
        return snapshot(group(member("one", [0])))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> _Cluster:
    """Replaces what asks the cluster."""
    running = _Cluster()

    def connect(*_: Any, **__: Any) -> _Cluster:
        return running

    for name in ("GroupObserver", "HistoryReader", "CoordinatorTail"):
        monkeypatch.setattr(group_watcher, name, connect)
    return running


def test_changes_that_were_read_before_an_error_are_not_lost(cluster: _Cluster) -> None:
    """The history is read first, and returns a change once. A coordinator that moves makes changes and errors."""
    watcher = GroupWatcher(ClusterAccess("localhost:9092"), "billing")
    watcher.look_again()
    assert watcher.new_changes == []
    change = history_of(epoch=7)
    cluster.changes, cluster.is_down = [change], True
    watcher.look_again()
    assert watcher.seen.problem == "no answer"
    assert watcher.new_changes == [change]
    watcher.look_again()
    assert watcher.new_changes == []
