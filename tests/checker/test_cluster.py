"""Short runs of the checker against a cluster with a real etcd; `make faults` has a long one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checker.faulty_broker import FAULTY_KLAMM
from tests.checker.run import run
from tests.checker.workload.roles import Cast
from tests.support.share_of_gate import is_in_share_of_gate


@pytest.mark.skipif(
    not is_in_share_of_gate("checker of a cluster", 3), reason="the gate runs it for a third of the commits"
)
@pytest.mark.timeout(600)
def test_clients_of_a_cluster_whose_brokers_are_killed(tmp_path: Path) -> None:
    """I4, I5, I10 to I12, I16 to I18, I26: clients see no anomaly while a partition leader and the broker that
    coordinates groups are killed, and etcd is started again."""
    faults = ["kill a leader", "kill etcd's leader", "kill a group coordinator"]
    report = run(tmp_path, seconds=5, seed=6, faults=faults, etcd_members=1, cast=Cast.small())
    assert report.facts.is_whole, report.facts.end_reason
    assert report.anomalies == []
    assert "Traceback" not in report.broker_log, report.broker_log[-4000:]
    assert report.faults == dict.fromkeys(faults, 1)
    assert {commit.group for commit in report.facts.commits} == set(Cast.small().groups)
    assert any(transaction.is_committed for transaction in report.facts.transactions.values())


@pytest.mark.skipif(
    not is_in_share_of_gate("checker of a cluster with pauses", 3), reason="the gate runs it for a third of the commits"
)
@pytest.mark.timeout(600)
def test_clients_of_a_cluster_whose_brokers_are_paused_and_cut_off(tmp_path: Path) -> None:
    """I4, I5, I10 to I12, I16 to I18, I26: clients see no anomaly while a broker stands still for longer than its
    session, so that others lead before it continues, and while a leader is cut off from the other brokers."""
    faults = ["pause a broker beyond its session", "cut a broker off from the others"]
    report = run(tmp_path, seconds=5, seed=8, faults=faults, etcd_members=1, cast=Cast.small())
    assert report.facts.is_whole, report.facts.end_reason
    assert report.anomalies == []
    assert "Traceback" not in report.broker_log, report.broker_log[-4000:]
    assert report.faults == dict.fromkeys(faults, 1)
    assert "this broker stops, because other brokers may see it as gone" in report.broker_log
    assert {commit.group for commit in report.facts.commits} == set(Cast.small().groups)


@pytest.mark.skipif(
    not is_in_share_of_gate("checker of a faulty cluster", 6), reason="the gate runs it for a sixth of the commits"
)
@pytest.mark.timeout(600)
def test_a_leader_that_acknowledges_before_its_followers(tmp_path: Path) -> None:
    """A bug that is planted into the brokers is found: they acknowledge records that no follower holds."""
    faults = ["cut off a leader and kill it"] * 3
    report = run(tmp_path, seconds=5, seed=7, faults=faults, etcd_members=1, program=FAULTY_KLAMM, cast=Cast.small())
    assert {"lost-write", "inconsistent-offsets"} & {anomaly.kind for anomaly in report.anomalies}
