"""With `kafka.group.id` the group knows how far the query has come, the last micro-batch included."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


@pytest.fixture
def group(topic: Topic) -> str:
    return f"group-of-{topic.name}"


def start(
    spark: SparkSession, topic: Topic, checkpoint: Path, group: str, *, available_now: bool = True, fail: bool = False
) -> StreamingQuery:
    def sink(frame: object, batch_id: int) -> None:
        if fail:
            raise RuntimeError("the sink failed")

    options = topic.options(startingOffsets="earliest", maxOffsetsPerTrigger=10, kafka_group_id=group)
    writer = spark.readStream.format("klamm").options(**options).load().writeStream.foreachBatch(sink)
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if available_now else writer).start()


def test_available_now_leaves_no_lag(spark: SparkSession, topic: Topic, tmp_path: Path, group: str) -> None:
    """The last of several micro-batches is committed before the query ends."""
    topic.produce(range(45))

    start(spark, topic, tmp_path, group).awaitTermination()

    assert topic.committed(group) == topic.ends()


def test_a_running_query_shows_its_lag(spark: SparkSession, topic: Topic, tmp_path: Path, group: str) -> None:
    """As soon as a micro-batch is in Spark's commit log."""
    topic.produce(range(20))
    query = start(spark, topic, tmp_path, group, available_now=False)
    try:
        query.processAllAvailable()
        assert topic.committed(group) == topic.ends()
        topic.produce(range(7))
        query.processAllAvailable()
        assert topic.committed(group) == topic.ends()
    finally:
        query.stop()


def test_a_failed_batch_is_not_committed(spark: SparkSession, topic: Topic, tmp_path: Path, group: str) -> None:
    """The checkpoint is the truth, and what is not in it is not in the group."""
    topic.produce(range(5))

    with pytest.raises(Exception, match="the sink failed"):
        start(spark, topic, tmp_path, group, fail=True).awaitTermination()
    assert topic.committed(group) == [-1001] * 3

    start(spark, topic, tmp_path, group).awaitTermination()
    assert topic.committed(group) == topic.ends()


def test_a_restart_commits_what_the_run_before_could_not(
    spark: SparkSession, topic: Topic, tmp_path: Path, group: str
) -> None:
    """A query that was stopped right after a batch: its next run begins by telling the group."""
    topic.produce(range(5))
    start(spark, topic, tmp_path, "another-group").awaitTermination()
    assert topic.committed(group) == [-1001] * 3

    start(spark, topic, tmp_path, group).awaitTermination()

    assert topic.committed(group) == topic.ends()


def test_a_group_with_members_refuses_the_query(spark: SparkSession, topic: Topic, tmp_path: Path, group: str) -> None:
    """Two readers that commit to one group would overwrite each other; the error says what to do."""
    topic.produce(range(5))
    consumer = Consumer(
        {
            "bootstrap.servers": topic.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic.name])
    deadline = time.monotonic() + 60
    while consumer.poll(0.2) is None:
        assert time.monotonic() < deadline, "the consumer got nothing"
    try:
        with pytest.raises(Exception, match="has members of its own"):
            start(spark, topic, tmp_path, group).awaitTermination()
    finally:
        consumer.close()
