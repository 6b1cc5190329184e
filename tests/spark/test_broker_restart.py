"""A broker that restarts under a query is waited for; nothing is lost and nothing comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AdminClient
from tests.support.spark_topics import create_topic

from klamm.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_outlives_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    """New connections, a raised leader epoch, a coordinator that loads: all of it passes."""
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
