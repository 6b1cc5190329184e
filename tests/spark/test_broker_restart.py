"""Tests that queries wait for a broker that restarts or crashes, without lost or repeated records."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.interop.broker_process import BrokerProcess
from tests.support.kafka_broker import ApacheKafka
from tests.support.spark_topics import create_topic

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.protocol.types import PartitionIndex, TopicPartition
from klamm.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_outlives_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    """A query continues after a broker restart: new connections, a higher leader epoch and a loading coordinator."""
    seen: list[str] = []

    def sink(frame: Any, batch_id: int) -> None:
        seen.extend(row[0] for row in frame.selectExpr("string(value)").collect())

    with Broker(tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topic = create_topic(admin, broker.bootstrap_servers, "flights", 3, {})
        topic.produce(range(100))
        options = topic.options(startingOffsets="earliest", kafka_group_id="delays")
        frame = spark.readStream.format("klamm").options(**options).load()
        query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()
            broker.stop()
            broker.start()
            topic.produce(range(100, 150))
            query.processAllAvailable()
            assert sorted(map(int, seen)) == list(range(150))
            assert topic.committed("delays") == topic.ends()
        finally:
            query.stop()


def test_a_query_that_writes_outlives_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    """A query that writes continues after a broker restart, and no record is lost or written twice."""
    with Broker(tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        source, topic = (create_topic(admin, broker.bootstrap_servers, name, 3, {}) for name in ("flights", "copies"))
        source.produce(range(100))
        frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
        writer = frame.select("value").writeStream.format("klamm").option("topic", topic.name)
        writer = writer.option("kafka.bootstrap.servers", broker.bootstrap_servers)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()
            broker.stop()
            broker.start()
            source.produce(range(100, 150))
            query.processAllAvailable()
        finally:
            query.stop()
        assert sorted(int(record.value or -1) for each in topic.records() for record in each) == list(range(150))


def leader_epoch(bootstrap_servers: str) -> int:
    """Returns the leader epoch of partition 0 of the topic "flights"."""
    with closing(Cluster(ClientConfig.from_mapping({"bootstrap.servers": bootstrap_servers}))) as cluster:
        cluster.refresh(["flights"])
        leader = cluster.leader_of(TopicPartition("flights", PartitionIndex(0)))
        assert leader is not None
        return leader.epoch


@pytest.mark.timeout(400)
def test_a_query_outlives_a_crash_of_its_broker(
    spark: SparkSession, mortal: BrokerProcess | ApacheKafka, tmp_path: Path
) -> None:
    """A query reads each record once while its broker is killed twice and restarts with a higher leader epoch."""
    seen: list[int] = []

    def sink(frame: Any, batch_id: int) -> None:
        seen.extend(int(row[0]) for row in frame.selectExpr("string(value)").collect())

    admin = AdminClient({"bootstrap.servers": mortal.bootstrap_servers})
    topic = create_topic(admin, mortal.bootstrap_servers, "flights", 2, {})
    total = 12_000
    topic.produce(range(total), **{"batch.num.messages": 100})
    epoch = leader_epoch(mortal.bootstrap_servers)
    options = topic.options(
        startingOffsets="earliest", maxOffsetsPerTrigger=1_500, kafka_max_partition_fetch_bytes=2_000
    )
    frame = spark.readStream.format("klamm").options(**options).load()
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        deadline = time.monotonic() + 300
        for crashes_at in (1, total // 2):
            while len(seen) < crashes_at and query.isActive and time.monotonic() < deadline:
                time.sleep(0.01)
            mortal.kill()
            mortal.restart()
        query.processAllAvailable()
    finally:
        query.stop()

    assert sorted(seen) == list(range(total))
    assert leader_epoch(mortal.bootstrap_servers) > epoch
