"""Tests a cluster whose brokers lose their disks, or have no room on them: no acknowledged record is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checker.cluster_brokers import ClusterBrokers
from tests.faults.load import TOPIC, Writer, create, read_all
from tests.support.small_disk import fill, small_disk

_PARTITIONS = 3
_RECORDS = 600
_FLUSH_S = 120.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterBrokers]:
    """Provides three brokers, with a topic of three replicas."""
    with ClusterBrokers(tmp_path) as brokers:
        create(brokers.bootstrap_servers, _PARTITIONS, 3)
        yield brokers


def _write(cluster: ClusterBrokers) -> dict[int, list[str]]:
    """Returns the acknowledged records of each partition."""
    writer = Writer(cluster.bootstrap_servers)
    writer.send(_RECORDS)
    assert writer.flush(_FLUSH_S) == 0
    assert not writer.errors
    return writer.acknowledged


def _lose_disk(cluster: ClusterBrokers, broker: int) -> None:
    shutil.rmtree(cluster.brokers[broker].data_directory)


@pytest.mark.timeout(600)
def test_a_lost_disk_is_replaced(cluster: ClusterBrokers) -> None:
    """A broker comes back with an empty disk, copies all records, and leads with them when the others are gone."""
    written = _write(cluster)
    broker = cluster.leader(TOPIC)
    with cluster.down(broker):
        _lose_disk(cluster, broker)
    assert read_all(cluster.bootstrap_servers, _PARTITIONS) == written
    cluster.wait_until_in_sync(TOPIC)
    with cluster.down(*(other for other in cluster.numbers if other != broker)):
        for partition in range(_PARTITIONS):
            cluster.wait_until_led_by(broker, TOPIC, partition)
        assert read_all(cluster.bootstrap_servers, _PARTITIONS) == written


@pytest.mark.timeout(600)
def test_all_brokers_are_killed_and_one_disk_is_lost(cluster: ClusterBrokers) -> None:
    """The broker with the empty disk starts first, and led a partition. It does not lead it without its records."""
    written = _write(cluster)
    assert 1 in {cluster.leader(TOPIC, partition) for partition in range(_PARTITIONS)}
    with cluster.down(*cluster.numbers):
        _lose_disk(cluster, 1)
        # Until the sessions have ended: a broker with an empty disk is not taken for the one that was killed.
        time.sleep(cluster.session_s + 2)
    cluster.wait_until_in_sync(TOPIC)
    assert read_all(cluster.bootstrap_servers, _PARTITIONS) == written


@pytest.mark.timeout(600)
def test_a_full_disk_of_a_leader(tmp_path: Path) -> None:
    """Another broker leads the partitions of a broker whose disk is full, and all records are acknowledged. The broker
    is in sync again once its disk has room, without a start. Preferred elections every 5 seconds do not matter."""
    with small_disk(tmp_path / "broker-1", 30_000) as disk, ClusterBrokers(tmp_path) as cluster:
        create(cluster.bootstrap_servers, _PARTITIONS, 3)
        assert 1 in {cluster.leader(TOPIC, partition) for partition in range(_PARTITIONS)}
        writer = Writer(cluster.bootstrap_servers, 2000)
        writer.send(_RECORDS)
        assert writer.flush(_FLUSH_S) == 0
        fill(disk / "filler")
        writer.send(_RECORDS)
        assert writer.flush(_FLUSH_S) == 0
        assert not writer.errors
        assert 1 not in {cluster.leader(TOPIC, partition) for partition in range(_PARTITIONS)}
        (disk / "filler").unlink()
        cluster.wait_until_in_sync(TOPIC)
        assert read_all(cluster.bootstrap_servers, _PARTITIONS) == writer.acknowledged
        assert "Traceback" not in cluster.log()
