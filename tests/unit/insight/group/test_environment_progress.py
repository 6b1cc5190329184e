"""Tests the progress of the same group in several environments."""

from __future__ import annotations

from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.group.environment_progress import (
    EnvironmentGroup,
    EnvironmentProgress,
    behind,
    environments_in,
    has_peers,
    partitions_of,
    total_behind,
)


def progress(label: str, cluster: str, committed: dict[tuple[str, int], int]) -> EnvironmentProgress:
    """Returns the progress of an environment's group on a cluster."""
    place = EnvironmentGroup(label, label, ClusterAccess("localhost:9092"))
    commit_ms = {key: 1_000 + offset for key, offset in committed.items()}
    return EnvironmentProgress(place, cluster, committed, {}, commit_ms)


def test_behind_is_behind_the_foremost_of_the_same_cluster() -> None:
    """An environment is behind the furthest committed offset of the same cluster; without a commit, the result is
    None."""

    key = ("orders", 0)
    every = [progress("dev", "a", {key: 5}), progress("prod", "a", {key: 9}), progress("far", "b", {key: 99})]
    assert [behind(every, each, key) for each in every] == [4, 0, 0]
    assert behind(every, progress("new", "a", {}), key) is None


def test_environments_are_the_prefixes_of_a_groups_name() -> None:
    """A group `<environment>.<name>` tells an environment, which may have dots itself. Other groups tell none."""
    group_ids = ["prod.orders", "dev.orders", "eu.test.orders", "orders", ".orders", "prod.reorders", "prod.orders.v2"]
    assert environments_in(group_ids, "orders") == {
        "dev": "dev.orders",
        "eu.test": "eu.test.orders",
        "prod": "prod.orders",
    }


def test_an_environment_is_compared_with_the_others_of_its_cluster() -> None:
    """The distances of all partitions are added. An environment alone on its cluster is compared with no other."""
    first, second = ("orders", 0), ("orders", 1)
    dev, prod = progress("dev", "a", {first: 5}), progress("prod", "a", {first: 9, second: 3})
    far = progress("far", "b", {second: 99})
    every = [dev, prod, far]
    assert partitions_of(every) == [first, second]
    assert [has_peers(every, each) for each in every] == [True, True, False]
    assert [total_behind(every, each) for each in every] == [4, 0, 0]
    assert total_behind(every, progress("late", "a", {first: 1, second: 1})) == 10
    assert [dev.last_commit_ms, prod.last_commit_ms, progress("new", "a", {}).last_commit_ms] == [1_005, 1_009, None]
