"""Tests a cluster whose etcd has no room on its disk, and the recovery."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.checker.cluster_brokers import ClusterBrokers
from tests.faults.load import Keeper, Writer, assert_all_goes_on, create
from tests.support.share_of_gate import is_in_share_of_gate
from tests.support.small_disk import fill, small_disk

from klamm.metadata.etcd.etcd_errors import EtcdCallFailed, EtcdUnavailable

_DISK_KB = 300_000
"""Two files of 62 MB for etcd's log, which it makes at its start, and room for the filler."""
_PARTITIONS = 3
_RECORDS = 300
_FLUSH_S = 120.0


@pytest.mark.skipif(
    not is_in_share_of_gate("full disk of etcd", 4), reason="the gate runs it for a quarter of the commits"
)
@pytest.mark.timeout(600)
def test_a_full_disk_of_the_only_etcd(tmp_path: Path) -> None:
    """etcd ends at the first write that fails, so that the brokers lose their sessions and end. When etcd is started
    with room, the brokers come back by themselves. Nothing that was acknowledged is lost, and no committed offset goes
    back."""
    with (
        small_disk(tmp_path / "disk", _DISK_KB) as disk,
        ClusterBrokers(tmp_path, etcd_options=[f"--data-dir={disk / 'etcd'}"]) as cluster,
    ):
        (member,) = cluster.etcd.members
        create(cluster.bootstrap_servers, _PARTITIONS, 3)
        writer, keeper = Writer(cluster.bootstrap_servers), Keeper(cluster.bootstrap_servers)
        writer.send(_RECORDS)
        keeper.commit_for_sure()
        assert writer.flush(_FLUSH_S) == 0
        fill(disk / "filler")
        with suppress(EtcdCallFailed, EtcdUnavailable):
            while True:
                cluster.etcd.put("large", bytes(1 << 19))
        while member.is_running:
            time.sleep(0.1)
        writer.send(_RECORDS)
        time.sleep(cluster.session_s + 1)
        (disk / "filler").unlink()
        cluster.etcd.start()
        assert_all_goes_on(cluster, writer, keeper, _PARTITIONS)
