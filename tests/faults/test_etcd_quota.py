"""Tests a cluster whose etcd has used up its quota (alarm NOSPACE), and the recovery."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.checker.cluster_brokers import ClusterBrokers
from tests.faults.load import TOPIC, Keeper, Writer, assert_all_goes_on, create, read_all

_PARTITIONS = 3
_RECORDS = 300
_FLUSH_S = 120.0


@pytest.mark.timeout(600)
def test_a_quota_that_is_used_up(tmp_path: Path) -> None:
    """Brokers stay live, and records and offsets are written and read. A new topic is refused with a message that says
    what to do, and the log says it, too. After compaction, defragmentation and disarming the alarm topics are created,
    and a broker that was killed meanwhile comes back."""
    with ClusterBrokers(tmp_path, etcd_options=["--quota-backend-bytes=8388608"]) as cluster:
        create(cluster.bootstrap_servers, _PARTITIONS, 3)
        writer, keeper = Writer(cluster.bootstrap_servers), Keeper(cluster.bootstrap_servers)
        writer.send(_RECORDS)
        keeper.commit_for_sure()
        assert writer.flush(_FLUSH_S) == 0
        cluster.etcd.fill_quota()
        time.sleep(cluster.session_s + 1)
        writer.send(_RECORDS)
        assert writer.flush(_FLUSH_S) == 0
        keeper.commit_for_sure()
        assert read_all(cluster.bootstrap_servers, _PARTITIONS) == writer.acknowledged
        with pytest.raises(KafkaException) as refused:
            create(cluster.bootstrap_servers, 1, 3, "refused")
        assert refused.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
        assert "alarm disarm" in str(refused.value)
        assert "alarm disarm" in cluster.log()
        with cluster.down(cluster.leader(TOPIC)):
            writer.send(_RECORDS)
            time.sleep(cluster.session_s + 1)
            cluster.etcd.free_quota()
        assert_all_goes_on(cluster, writer, keeper, _PARTITIONS)
