"""Where a read starts with `startingOffsets=committed`."""

from __future__ import annotations

from klamm.spark.source.group_commits import GroupCommits
from klamm.spark.source.offsets import PartitionOffsets
from klamm.spark.source.planner import Planner

__all__ = ["committed_start"]


def committed_start(planner: Planner, commits: GroupCommits) -> PartitionOffsets:
    """An offset for each subscribed partition: where the group stands, or else where `klamm.group.reset` says.

    Raises `OptionError` for a partition without a commit if that is to fail, and what the cluster raises.
    """
    latest = planner.existing()
    committed = commits.start(latest)
    if commits.resets_to_latest:
        return {key: committed.get(key, offset) for key, offset in latest.items()}
    return planner.start_of_new(committed, latest)
