"""Tests queries that read and write topics whose partitions and coordinators are spread over three brokers."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.spark_topics import Topic, create_topic

from klamm.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.timeout(300)

_PARTITIONS: Final = 6
_GROUP: Final = "copies"
_RECORDS: Final = 360
_PER_MICRO_BATCH: Final = 60
_AWAY_S: Final = 0.5
_PATIENCE_S: Final = 200


def test_exactly_once_while_each_broker_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    """A query that copies a topic exactly once, and commits its offsets to a group, goes on while each broker is killed
    and started again: leaders, transaction coordinator and group coordinator are all away for a while."""
    with Cluster(brokers=3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        source, copies = (
            create_topic(admin, cluster.bootstrap_servers, name, _PARTITIONS, {}) for name in ("flights", "copies")
        )
        assert {cluster.leader_of(copies.name, index) for index in range(_PARTITIONS)} == set(cluster.brokers)
        source.produce(range(_RECORDS))
        query = _copy(spark, source, copies, tmp_path / "checkpoint")
        try:
            for broker in cluster.brokers:
                _wait_for_a_batch(query)
                cluster.kill(broker)
                time.sleep(_AWAY_S)
                cluster.restart(broker)
            query.processAllAvailable()
        finally:
            query.stop()

        values = Counter(int(record.value or -1) for record in itertools.chain(*copies.records(_PARTITIONS)))
        assert values == Counter(range(_RECORDS))
        assert source.committed(_GROUP, _PARTITIONS) == source.ends(_PARTITIONS)


def test_batch_jobs_wait_for_a_broker_that_is_away(spark: SparkSession, tmp_path: Path) -> None:
    """A job that writes a topic, and one that reads it, begin while one of the brokers is away, and finish when it is
    back: no record is missing."""
    with Cluster(brokers=3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = create_topic(admin, cluster.bootstrap_servers, "flights", _PARTITIONS, {})
        rows = spark.range(_RECORDS).selectExpr("string(id) value")
        writer = rows.write.format("klamm").mode("append").option("topic", topic.name)
        with _away(cluster, 2):
            writer.option("kafka.bootstrap.servers", topic.bootstrap_servers).save()
        with _away(cluster, 3):
            found = spark.read.format("klamm").options(**topic.options()).load().selectExpr("int(string(value))")
            values = [row[0] for row in found.collect()]
        assert set(values) == set(range(_RECORDS))


@contextmanager
def _away(cluster: Cluster, broker: int) -> Iterator[None]:
    """Kills a broker, and starts it again after a while, while the block is running."""
    cluster.kill(broker)
    restart = threading.Timer(_AWAY_S, cluster.restart, [broker])
    restart.start()
    yield
    restart.join()


def _copy(spark: SparkSession, source: Topic, into: Topic, checkpoint: Path) -> StreamingQuery:
    """Starts a query that copies a topic exactly once in small micro-batches."""
    options = source.options(startingOffsets="earliest", maxOffsetsPerTrigger=_PER_MICRO_BATCH, kafka_group_id=_GROUP)
    frame = spark.readStream.format("klamm").options(**options).load().select("key", "value")
    writer = frame.writeStream.format("klamm").option("checkpointLocation", str(checkpoint))
    writer = writer.option("kafka.bootstrap.servers", into.bootstrap_servers).option("topic", into.name)
    return writer.option("klamm.sink.semantics", "exactly-once").start()


def _batches(query: StreamingQuery) -> int:
    """Returns the number of finished micro-batches of this run."""
    progress = query.lastProgress
    return 0 if progress is None else int(progress["batchId"]) + 1


def _wait_for_a_batch(query: StreamingQuery) -> None:
    """Waits until one more micro-batch is finished."""
    before = _batches(query)
    deadline = time.monotonic() + _PATIENCE_S
    while _batches(query) == before:
        failure = query.exception()
        assert failure is None, failure
        assert time.monotonic() < deadline, "the query makes no progress"
        time.sleep(0.02)
