"""Tests the progress of the same group in several environments."""

from __future__ import annotations

from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.group.environment_progress import EnvironmentGroup, EnvironmentProgress, behind


def test_behind_is_behind_the_foremost_of_the_same_cluster() -> None:
    """An environment is behind the furthest committed offset of the same cluster; without a commit, the result is
    None."""

    def progress(label: str, cluster: str, committed: dict[tuple[str, int], int]) -> EnvironmentProgress:
        return EnvironmentProgress(
            EnvironmentGroup(label, label, ClusterAccess("localhost:9092")), cluster, committed, {}, {}
        )

    key = ("orders", 0)
    every = [progress("dev", "a", {key: 5}), progress("prod", "a", {key: 9}), progress("far", "b", {key: 99})]
    assert [behind(every, each, key) for each in every] == [4, 0, 0]
    assert behind(every, progress("new", "a", {}), key) is None
