"""The order in which partitions move."""

from __future__ import annotations

import argparse

import pytest
from tests.unit.insight.canned_cluster import CannedCluster

from klamm.cli.cluster.move_batches import move_in_batches
from klamm.insight.cluster.replica_layout import PartitionMove
from klamm.insight.errors import ClusterError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest


def test_partitions_without_a_leader_move_last(capsys: pytest.CaptureFixture[str]) -> None:
    """They copy nothing. A few of them must not hold up all other partitions of a broker that is gone."""
    cluster = CannedCluster([1, 2, 3], {"bills": [(3,)], "orders": [(1, 3)]}, fenced=[3])
    cluster.leaderless = {("bills", 0)}
    cluster.reassignment_error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # ends the command with the first batch
    moves = [PartitionMove(("bills", 0), (3,), (2,), 0), PartitionMove(("orders", 0), (1, 3), (1, 2), 0)]
    with pytest.raises(ClusterError):
        move_in_batches(argparse.Namespace(throttle=None, at_once=1, output="table"), cluster, moves)
    (request,) = (each for each in cluster.asked if isinstance(each, AlterPartitionReassignmentsRequest))
    assert [topic.name for topic in request.topics] == ["orders"]
    assert (
        capsys.readouterr().err == "klamm cluster: bills-0 has no leader: it moves when one of its replicas is back\n"
    )


def test_a_topic_that_was_deleted_before_its_turn_is_told_and_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """The command has planned the moves itself, so a topic that does not exist was deleted after that."""
    cluster = CannedCluster([1, 2], {"orders": [(2,)]})
    moves = [PartitionMove(("gone", 0), (1,), (2,), 0), PartitionMove(("orders", 0), (1,), (2,), 0)]
    assert move_in_batches(argparse.Namespace(throttle=None, at_once=5, output="table"), cluster, moves) == 0
    shown = capsys.readouterr()
    assert shown.err == "klamm cluster: gone-0 no longer exists\n"
    assert shown.out.endswith("1 partition moved\n")
