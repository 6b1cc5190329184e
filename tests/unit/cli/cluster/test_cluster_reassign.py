"""`klamm cluster reassign`, if the cluster refuses the moves or has ended them."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from tests.unit.insight.canned_cluster import CannedCluster

from klamm.cli.cluster import cluster_reassign
from klamm.insight.cluster.moving_partitions import Moving
from klamm.insight.errors import ClusterError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest
from klamm.protocol.schema.list_partition_reassignments_request import ListPartitionReassignmentsRequest


def _run(monkeypatch: pytest.MonkeyPatch, cluster: CannedCluster, **options: Any) -> int:
    monkeypatch.setattr(cluster_reassign, "ClusterRequests", lambda access: cluster)
    given: dict[str, Any] = {
        "topics": [],
        "internal": False,
        "to": None,
        "replication_factor": None,
        "file": None,
        "status": False,
        "cancel": False,
        "throttle": None,
        "dry_run": False,
        "no_wait": False,
        "output": "table",
        "bootstrap_server": "localhost:9092",
        "properties": [],
        "context": None,
    }
    return cluster_reassign.run(argparse.Namespace(**given | options))


def test_a_throttle_of_moves_that_could_not_begin_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The throttle is set before the moves begin. If an error ends the command then, the user is told how it goes."""
    cluster = CannedCluster([1, 2], {"orders": [(1,)]})
    cluster.reassignment_error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(ClusterError, match="CLUSTER_AUTHORIZATION_FAILED"):
        _run(monkeypatch, cluster, topics=["orders"], to=(2,), throttle=1_000)
    assert cluster.altered().keys() == {"orders", "1", "2"}
    assert "the throttle stays while partitions move" in capsys.readouterr().err


def test_a_move_that_ends_before_it_is_cancelled_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not in progress any more, as wanted. The throttle goes all the same."""

    class Ending(CannedCluster):
        def _answer(self, request: Message) -> Message:
            reply = super()._answer(request)
            if isinstance(request, ListPartitionReassignmentsRequest):
                self.moving.pop(("orders", 0), None)
            return reply

    moves = [Moving("orders", index, (2, 1), adding=(2,), removing=(1,)) for index in (0, 1)]
    cluster = Ending([1, 2], {"orders": [(2,), (2, 1)]}, moving=moves)
    assert _run(monkeypatch, cluster, cancel=True) == 0
    assert capsys.readouterr().err == ""
    assert any(isinstance(each, DescribeConfigsRequest) for each in cluster.asked), "what removes the throttle"
