"""Tests a cluster whose brokers lose their disks, or have no room on them: no acknowledged record is lost.

`make faults` fills the disk of a follower ten times.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.checker.cluster_brokers import ClusterBrokers
from tests.faults.load import ROUNDS, TOPIC, Writer, create, read_all
from tests.support.share_of_gate import is_in_share_of_gate
from tests.support.small_disk import fill, small_disk

_PARTITIONS = 3
_RECORDS = 600
_FLUSH_S = 120.0
_FILLINGS = max(1, ROUNDS // 50)
_RECORD_BYTES = 2000


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
    cluster.wait_until_leading(1, TOPIC)
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
        cluster.wait_until_leading(1, TOPIC)
        writer = Writer(cluster.bootstrap_servers, 2000)
        writer.send(_RECORDS)
        assert writer.flush(_FLUSH_S) == 0
        fill(disk / "filler")
        writer.send(_RECORDS)
        assert writer.flush(_FLUSH_S) == 0
        assert not writer.errors
        cluster.wait_until_not_led_by(1, TOPIC)
        (disk / "filler").unlink()
        cluster.wait_until_in_sync(TOPIC)
        assert read_all(cluster.bootstrap_servers, _PARTITIONS) == writer.acknowledged
        assert "Traceback" not in cluster.log()


@pytest.mark.timeout(600)
def test_a_full_disk_of_a_follower(tmp_path: Path) -> None:
    """Records are acknowledged by the two other brokers. As long as its disk is full, the follower is not in sync
    again. Once there is room it copies what it lacks, without a start."""
    follower = 1
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / f"broker-{follower}" / "data", 60_000))
        cluster = stack.enter_context(ClusterBrokers(tmp_path))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic(TOPIC, _PARTITIONS, replica_assignment=[[2, 3, follower], [3, 2, follower], [2, 3, follower]])
        admin.create_topics([topic])[TOPIC].result(60)
        writer = Writer(cluster.bootstrap_servers, _RECORD_BYTES)
        for _ in range(_FILLINGS):
            writer.send(_RECORDS)
            assert writer.flush(_FLUSH_S) == 0
            fill(disk / "filler")
            writer.send(_RECORDS)
            assert writer.flush(_FLUSH_S) == 0
            cluster.wait_until_not_in_sync(follower, TOPIC)
            for _ in range(20):
                writer.send(_PARTITIONS)
                assert writer.flush(_FLUSH_S) == 0
                # Records with acks=all need two in-sync replicas, so the others are in sync.
                assert follower not in cluster.in_sync(TOPIC)
            (disk / "filler").unlink()
            cluster.wait_until_in_sync(TOPIC)
        assert not writer.errors
        assert read_all(cluster.bootstrap_servers, _PARTITIONS) == writer.acknowledged
        for partition in range(_PARTITIONS):
            assert _content(cluster, follower, partition) == _content(cluster, 2, partition)
        assert "Traceback" not in cluster.log()


def _content(cluster: ClusterBrokers, broker: int, partition: int) -> bytes:
    """Returns the bytes of a replica. Nothing may be written meanwhile."""
    files = sorted((cluster.data_of(broker) / f"{TOPIC}-{partition}").glob("*.log"))
    return b"".join(path.read_bytes() for path in files)


@pytest.mark.skipif(not is_in_share_of_gate("full disks", 4), reason="the gate runs it for a quarter of the commits")
@pytest.mark.timeout(600)
def test_full_disks_of_all_brokers(tmp_path: Path) -> None:
    """Writes are refused until there is room, and go on then, without a start. Each record that was acknowledged is
    there once."""
    with ExitStack() as stack:
        disks = [stack.enter_context(small_disk(tmp_path / f"broker-{each}" / "data", 30_000)) for each in (1, 2, 3)]
        cluster = stack.enter_context(ClusterBrokers(tmp_path))
        create(cluster.bootstrap_servers, _PARTITIONS, 3)
        writer = Writer(cluster.bootstrap_servers, _RECORD_BYTES)
        writer.send(_RECORDS)
        assert writer.flush(_FLUSH_S) == 0
        for disk in disks:
            fill(disk / "filler")
        writer.send(_RECORDS)
        assert writer.flush(3) > 0
        for disk in disks:
            (disk / "filler").unlink()
        assert writer.flush(_FLUSH_S) == 0
        assert not writer.errors
        cluster.wait_until_in_sync(TOPIC)
        assert read_all(cluster.bootstrap_servers, _PARTITIONS) == writer.acknowledged
        assert "Traceback" not in cluster.log()
