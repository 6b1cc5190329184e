"""`klamm cluster reassign`, if the cluster refuses the moves."""

from __future__ import annotations

import argparse

import pytest
from tests.unit.insight.canned_cluster import CannedCluster

from klamm.cli.cluster import cluster_reassign
from klamm.insight.errors import ClusterError
from klamm.protocol.errors import ErrorCode


def test_a_throttle_of_moves_that_could_not_begin_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The throttle is set before the moves begin. If an error ends the command then, the user is told how it goes."""
    cluster = CannedCluster([1, 2], {"orders": [(1,)]})
    cluster.reassignment_error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    monkeypatch.setattr(cluster_reassign, "ClusterRequests", lambda access: cluster)
    arguments = argparse.Namespace(
        topics=["orders"],
        internal=False,
        to=(2,),
        replication_factor=None,
        file=None,
        status=False,
        cancel=False,
        throttle=1_000,
        dry_run=False,
        no_wait=False,
        output="table",
        bootstrap_server="localhost:9092",
        properties=[],
        context=None,
    )
    with pytest.raises(ClusterError, match="CLUSTER_AUTHORIZATION_FAILED"):
        cluster_reassign.run(arguments)
    assert cluster.altered().keys() == {"orders", "1", "2"}
    assert "the throttle stays while partitions move" in capsys.readouterr().err
