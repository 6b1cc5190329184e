"""`klamm cluster decommission --cancel` and `--unregister`, for brokers that do not run."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from tests.unit.insight.canned_cluster import CannedCluster

from klamm.cli.cluster import cluster_decommission
from klamm.insight.cluster.moving_partitions import Moving
from klamm.insight.errors import ClusterError
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest

LEAVING = Moving("orders", 0, (2, 1, 3), adding=(2,), removing=(3,))


def _run(monkeypatch: pytest.MonkeyPatch, cluster: CannedCluster, **options: Any) -> int:
    monkeypatch.setattr(cluster_decommission, "ClusterRequests", lambda access: cluster)
    given: dict[str, Any] = {
        "broker": 3,
        "dry_run": False,
        "unregister": False,
        "cancel": False,
        "throttle": None,
        "output": "table",
        "bootstrap_server": "localhost:9092",
        "properties": [],
        "context": None,
    }
    return cluster_decommission.run(argparse.Namespace(**given | options))


def test_the_moves_away_from_a_broker_that_is_gone_can_be_cancelled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a broker that runs can end its cordon, and one that is gone can be drained, too."""
    cluster = CannedCluster([1, 2, 3], {"orders": [(2, 1, 3)]}, moving=[LEAVING], fenced=[3])
    assert _run(monkeypatch, cluster, cancel=True) == 0
    assert cluster.moving == {}
    out = capsys.readouterr().out
    assert "broker 3 is not running, so a cordon stays" in out
    assert "cancelled 1 move" in out


def test_a_broker_that_runs_gets_replicas_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cordon ends, and the moves are cancelled."""
    cluster = CannedCluster([1, 2, 3], {"orders": [(2, 1, 3)]}, moving=[LEAVING])
    assert _run(monkeypatch, cluster, cancel=True) == 0
    assert cluster.altered() == {"3": {"cordoned.log.dirs": None}}
    assert "broker 3 can get replicas again; cancelled 1 move" in capsys.readouterr().out


def test_a_broker_whose_replicas_still_move_away_stays_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled move would bring the replica back to a broker that does not exist any more."""
    cluster = CannedCluster([1, 2, 3], {"orders": [(2, 1, 3)]}, moving=[LEAVING], fenced=[3])
    with pytest.raises(ClusterError, match="moves of 1 partition away from broker 3 are in progress"):
        _run(monkeypatch, cluster, unregister=True)
    assert not any(isinstance(each, UnregisterBrokerRequest) for each in cluster.asked)
