"""Tests which members a start chooses."""

from __future__ import annotations

import os

import pytest

from klamm.cli.cluster.cluster_record import ClusterRecord
from klamm.cli.cluster.cluster_start import choose_members
from klamm.cli.cluster.member_process import identify
from klamm.cli.errors import UsageError

PORTS = range(10_000, 10_100)


def _chosen(
    known: ClusterRecord | None = None, brokers: int | None = None, replication_factor: int | None = None
) -> ClusterRecord:
    return choose_members(known, brokers, replication_factor, PORTS)


def _ports(record: ClusterRecord) -> list[int]:
    return [record.etcd.port, record.etcd.peer_port or 0, *(broker.port for broker in record.brokers)]


def test_a_new_cluster_has_three_brokers() -> None:
    """Without options there are three brokers with three replicas, and all ports differ."""
    record = _chosen()
    assert [broker.name for broker in record.brokers] == ["broker-1", "broker-2", "broker-3"]
    assert record.replication_factor == 3
    assert len(set(_ports(record))) == 5


def test_fewer_brokers_have_fewer_replicas() -> None:
    """A replica needs a broker of its own, so two brokers have two replicas. A chosen factor is used as it is."""
    assert _chosen(brokers=2).replication_factor == 2
    assert _chosen(brokers=3, replication_factor=1).replication_factor == 1
    with pytest.raises(UsageError, match="each replica needs a broker"):
        _chosen(brokers=2, replication_factor=3)


def test_a_known_cluster_stays_as_it_is() -> None:
    """Without options, a later start keeps brokers, ports and replication factor."""
    known = _chosen(brokers=2, replication_factor=1)
    assert _chosen(known) == known
    assert _chosen(known, brokers=2, replication_factor=1) == known


def test_a_cluster_may_grow() -> None:
    """New brokers get the next ids and ports that no member has. A cluster can't shrink."""
    known = _chosen(brokers=2)
    grown = _chosen(known, brokers=4)
    assert grown.brokers[:2] == known.brokers
    assert [broker.broker_id for broker in grown.brokers] == [1, 2, 3, 4]
    assert len(set(_ports(grown))) == 6
    assert grown.replication_factor == 2
    with pytest.raises(UsageError, match="the cluster has 4"):
        _chosen(grown, brokers=2)


def test_brokers_that_run_keep_their_replication_factor() -> None:
    """Another factor needs a stop, because all brokers must have the same."""
    known = _chosen()
    assert _chosen(known, replication_factor=1).replication_factor == 1
    running = known.with_process("broker-2", identify(os.getpid()))
    with pytest.raises(UsageError, match="the brokers run with 3"):
        _chosen(running, replication_factor=1)
    assert _chosen(running, replication_factor=3) == running
