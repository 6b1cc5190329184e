"""Tests the traffic of a group's partitions from snapshots, without waiting for time to pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.unit.insight.pictures import NOW_MS, group, member

from klamm.core.group.partition_limits import PartitionFlow
from klamm.insight.group.group_flows import flows_of, is_worth_following
from klamm.insight.group.group_snapshot import Snapshot

KEY = ("orders", 0)


def _snapshots(commits: Sequence[int | None], ends: Sequence[int]) -> list[Snapshot]:
    """Returns a snapshot for each second."""
    picture = group(member("one", [0]))
    return [
        Snapshot(
            NOW_MS + second * 1000, picture, {} if commit is None else {KEY: commit}, {KEY: (0, end)}, {"orders": 1}
        )
        for second, (commit, end) in enumerate(zip(commits, ends, strict=True))
    ]


def test_rates_are_known_from_two_snapshots() -> None:
    """Two snapshots show how fast the partition grows and how fast the commit follows."""
    (flow,) = flows_of(_snapshots([0, 40], [100, 200]))
    assert flow == PartitionFlow("orders", 0, "one-0", 100.0, 40.0, 160, True)
    assert flow.is_behind


def test_commits_in_steps_are_measured_from_step_to_step() -> None:
    """A consumer that commits every five seconds and keeps up is not behind, although its lag was 0 at the start."""
    commits = [0, 100, 100, 100, 100, 100, 600, 600, 600, 600, 600, 1_100]
    ends = [100 * second for second in range(12)]
    (flow,) = flows_of(_snapshots(commits, ends))
    assert (flow.arriving, flow.done) == (100.0, 100.0)
    assert not flow.is_behind


def test_a_lag_between_two_commits_does_not_count_as_growing() -> None:
    """A lag that falls back to its lowest value with each commit does not grow."""
    commits = [0, 0, 0, 300, 300, 300, 600, 600]
    ends = [0, 100, 200, 300, 400, 500, 600, 700]
    (flow,) = flows_of(_snapshots(commits, ends))
    assert (flow.lag, flow.is_growing) == (100, False)


def test_what_a_worker_has_finished_beyond_the_commit_is_done() -> None:
    """A worker whose commit waits for one slow record is not behind if the others are finished as they arrive."""
    ends = [100 * second for second in range(1, 6)]
    snapshots = [
        replace(snapshot, finished_beyond={KEY: end - 1})
        for snapshot, end in zip(_snapshots([0] * 5, ends), ends, strict=True)
    ]
    (flow,) = flows_of(snapshots)
    assert (flow.arriving, flow.done, flow.lag, flow.is_growing) == (100.0, 100.0, 500, False)
    (flow,) = flows_of(_snapshots([0] * 5, ends))
    assert flow.is_behind


def test_a_partition_without_a_commit_has_no_rate() -> None:
    """Without a commit at the start, nothing is known about the partition."""
    assert flows_of(_snapshots([None, 40], [100, 200])) == []


def test_one_snapshot_has_no_rates() -> None:
    """One snapshot, as for a group that changed meanwhile, shows no rate."""
    assert flows_of(_snapshots([0], [100])) == []


def test_only_a_stable_group_with_lag_is_followed() -> None:
    """A group without lag, or in a rebalance, is not measured."""
    assert is_worth_following(_snapshots([0], [100])[0])
    assert not is_worth_following(_snapshots([100], [100])[0])
    (snapshot,) = _snapshots([0], [100])
    unstable = Snapshot(
        snapshot.at_ms, group(member("one", [0]), state="assigning"), snapshot.committed, snapshot.ends, {}
    )
    assert not is_worth_following(unstable)
