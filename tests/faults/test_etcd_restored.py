"""Tests a cluster under load whose etcd is restored from a backup while the brokers run, and the way back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.checker.cluster_brokers import ClusterBrokers
from tests.faults.load import TOPIC, Keeper, Writer, create, read_all

_PARTITIONS = 3
_RECORDS = 300
_FLUSH_S = 120.0


@pytest.mark.timeout(600)
def test_an_etcd_that_was_restored_is_refused_by_running_brokers(tmp_path: Path) -> None:
    """Three brokers notice that etcd has an older state, and end. They refuse to start on it, also when leases have
    expired and etcd has the revision again that it had before. Once etcd has its own data again, the cluster goes on.
    Nothing that was acknowledged is lost, and no committed offset goes back."""
    backup, newest = tmp_path / "backup", tmp_path / "newest"
    with ClusterBrokers(tmp_path) as cluster:
        (member,) = cluster.etcd.members
        create(cluster.bootstrap_servers, _PARTITIONS, 3)
        writer, keeper = Writer(cluster.bootstrap_servers), Keeper(cluster.bootstrap_servers)
        writer.send(_RECORDS)
        keeper.commit_for_sure()
        assert writer.flush(_FLUSH_S) == 0
        member.kill()
        cluster.etcd.copy_data(backup)
        cluster.etcd.start()
        cluster.wait_until_up()
        create(cluster.bootstrap_servers, 1, 3, "later")
        cluster.wait_until_in_sync(TOPIC, "later")
        writer.send(_RECORDS)
        member.kill()
        cluster.etcd.copy_data(newest)
        cluster.etcd.restore_data(backup)
        cluster.etcd.start()
        writer.send(_RECORDS)
        # The restored etcd soon has the revision that it had before.
        for number in range(10):
            cluster.etcd.put(f"elsewhere/{number}")
        for broker in cluster.brokers.values():
            while "nothing was changed. etcd was restored from a backup" not in broker.log():
                time.sleep(0.1)
            assert "is not assigned to this broker" not in broker.log()
        member.kill()
        cluster.etcd.restore_data(newest)
        cluster.etcd.start()
        cluster.wait_until_in_sync(TOPIC, "later")
        writer.send(_RECORDS)
        assert writer.flush(_FLUSH_S) == 0
        assert not writer.errors
        keeper.commit_for_sure()
        keeper.check()
        keeper.close()
        create(cluster.bootstrap_servers, 1, 3, "accepted")
        assert read_all(cluster.bootstrap_servers, _PARTITIONS) == writer.acknowledged
        assert "Traceback" not in cluster.log()
