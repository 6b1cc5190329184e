"""Tests that a query with `kafka.group.id` commits its offsets to the group, including the last micro-batch."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.support.planning_processes import await_end_of_planning, planning_processes
from tests.support.spark_topics import Topic

import klamm.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@pytest.fixture
def group(topic: Topic) -> str:
    return f"group-of-{topic.name}"


def start(
    spark: SparkSession,
    topic: Topic,
    checkpoint: Path,
    group: str,
    *,
    trigger: dict[str, Any] | None = None,
    fail: bool = False,
    more: dict[str, str] | None = None,
    read: list[int] | None = None,
) -> StreamingQuery:
    """Starts a query that reads all records and ends, or runs with the given `trigger`; `{}` is Spark's default."""

    def sink(frame: DataFrame, batch_id: int) -> None:
        if fail:
            assert planning_processes(spark), "whose end is waited for would not be seen"
            raise RuntimeError("the sink failed")
        if read is not None:
            read.extend(int(row[0]) for row in frame.selectExpr("string(value)").collect())

    options = topic.options(startingOffsets="earliest", maxOffsetsPerTrigger=10, kafka_group_id=group) | (more or {})
    writer = spark.readStream.format("klamm").options(**options).load().writeStream.foreachBatch(sink)
    writer = writer.option("checkpointLocation", str(checkpoint))
    trigger = {"availableNow": True} if trigger is None else trigger
    return (writer.trigger(**trigger) if trigger else writer).start()


def fail(spark: SparkSession, topic: Topic, checkpoint: Path, group: str) -> None:
    """Runs a query with a failing sink; returns when the source has stopped too, and can commit nothing more."""
    with pytest.raises(Exception, match="the sink failed"):
        start(spark, topic, checkpoint, group, fail=True).awaitTermination()
    await_end_of_planning(spark)


def forget_last_commit(checkpoint: Path) -> None:
    """Removes the newest entry of the commit log, as if the driver crashed between the sink and the commit log."""
    commits = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    newest = max(commits, key=lambda path: int(path.name))
    newest.unlink()
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)


def commit(topic: Topic, group: str, *offsets: int) -> None:
    """Commits offsets for the group, as an administrator does who moves the group."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap_servers, "group.id": group})
    try:
        consumer.commit(
            offsets=[TopicPartition(topic.name, index, offset) for index, offset in enumerate(offsets)],
            asynchronous=False,
        )
    finally:
        consumer.close()


def test_available_now_leaves_no_lag(spark: SparkSession, topic: Topic, tmp_path: Path, group: str) -> None:
    """With AvailableNow, the last of several micro-batches is committed before the query ends."""
    topic.produce(range(45))

    start(spark, topic, tmp_path, group).awaitTermination()

    assert topic.committed(group) == topic.ends()


def test_a_running_query_shows_its_lag(spark: SparkSession, topic: Topic, tmp_path: Path, group: str) -> None:
    """A query commits a micro-batch as soon as it is in Spark's commit log; the tools then show a lag of 0."""
    topic.produce(range(20))
    query = start(spark, topic, tmp_path, group, trigger={})
    try:
        query.processAllAvailable()
        assert topic.committed(group) == topic.ends()
        topic.produce(range(7))
        query.processAllAvailable()
        assert topic.committed(group) == topic.ends()
        lag = klamm.spark.lag(query)
        assert [each.topic for each in lag] == [topic.name] * 3
        assert [each.latest for each in lag] == topic.ends()
        assert lag.total == 0
        described = subprocess.run(
            [sys.executable, "-m", "klamm.cli", "group", "describe", group, "-b", topic.bootstrap_servers],
            capture_output=True,
            text=True,
            check=True,
        )
        application = f"Spark application {spark.sparkContext.applicationId}"
        assert described.stdout.splitlines()[0] == f"group {group}: empty, 0 members, lag 0, {application}"
    finally:
        query.stop()


@pytest.mark.parametrize("is_told", [False, True], ids=["the driver is asked", "an option tells"])
def test_the_last_batch_of_a_stopped_query_is_committed(
    spark: SparkSession, topic: Topic, tmp_path: Path, group: str, is_told: bool
) -> None:
    """If a query stops before its next trigger, the source reads the checkpoint and commits the last micro-batch."""
    topic.produce(range(7))
    told = {"klamm.group.checkpointLocation": str(tmp_path)} if is_told else {}
    query = start(spark, topic, tmp_path, group, trigger={"processingTime": "1 hour"}, more=told)
    try:
        eventually(lambda: query.lastProgress is not None)
        assert topic.committed(group) == [-1001] * 3
    finally:
        query.stop()

    eventually(lambda: topic.committed(group) == topic.ends())


def test_a_batch_that_failed_is_not_committed_when_the_query_stops(
    spark: SparkSession, topic: Topic, tmp_path: Path, group: str
) -> None:
    """A micro-batch in the offset log but not in the commit log is not committed when the query stops."""
    topic.produce(range(5))
    start(spark, topic, tmp_path, group).awaitTermination()
    committed = topic.committed(group)
    topic.produce(range(5))

    fail(spark, topic, tmp_path, group)

    assert topic.committed(group) == committed


def test_a_fresh_checkpoint_starts_where_the_group_stands(
    spark: SparkSession, topic: Topic, tmp_path: Path, group: str
) -> None:
    """With `startingOffsets=committed`, a batch read and a fresh stream start at the committed offsets.

    `klamm.group.reset` decides where a partition without a committed offset starts.
    """
    for partition in range(3):
        topic.produce(range(partition * 10, partition * 10 + 10), partition)
    commit(topic, group, 4, 8)
    committed = {"startingOffsets": "committed"}

    def read(**more: str) -> list[int]:
        options = topic.options(kafka_group_id=group) | committed | more
        frame = spark.read.format("klamm").options(**options).load()
        return sorted(int(row[0]) for row in frame.selectExpr("string(value)").collect())

    assert read() == [*range(4, 10), 18, 19, *range(20, 30)]
    assert read(**{"klamm.group.reset": "latest"}) == [*range(4, 10), 18, 19]
    with pytest.raises(Exception, match=f"has committed nothing for {topic.name}-2"):
        read(**{"klamm.group.reset": "fail"})
    assert topic.committed(group) == [4, 8, -1001]

    values: list[int] = []
    start(spark, topic, tmp_path, group, more=committed, read=values).awaitTermination()
    assert sorted(values) == [*range(4, 10), 18, 19, *range(20, 30)]
    assert topic.committed(group) == [10, 10, 10]


def test_a_checkpoint_that_disagrees_with_the_group(
    spark: SparkSession, topic: Topic, tmp_path: Path, group: str
) -> None:
    """With `klamm.group.conflict=fail`, a moved group fails the query; a crash before the commit log does not."""
    topic.produce(range(12))
    start(spark, topic, tmp_path, group).awaitTermination()
    forget_last_commit(tmp_path)
    fail = {"klamm.group.conflict": "fail"}
    start(spark, topic, tmp_path, group, more=fail).awaitTermination()
    assert topic.committed(group) == topic.ends()

    commit(topic, group, 0, 0, 0)
    with pytest.raises(Exception, match=rf"the checkpoint and group '{group}' disagree.*group 0"):
        start(spark, topic, tmp_path, group, more=fail).awaitTermination()
    assert topic.committed(group) == [0, 0, 0]
    start(spark, topic, tmp_path, group).awaitTermination()
    assert topic.committed(group) == topic.ends()


def test_a_failed_batch_is_not_committed(spark: SparkSession, topic: Topic, tmp_path: Path, group: str) -> None:
    """A micro-batch that is not in the commit log of the checkpoint is not committed to the group."""
    topic.produce(range(5))

    fail(spark, topic, tmp_path, group)
    assert topic.committed(group) == [-1001] * 3

    start(spark, topic, tmp_path, group).awaitTermination()
    assert topic.committed(group) == topic.ends()


def test_a_restart_commits_what_the_run_before_could_not(
    spark: SparkSession, topic: Topic, tmp_path: Path, group: str
) -> None:
    """A restart first commits the offsets of the checkpoint that the previous run did not commit to the group."""
    topic.produce(range(5))
    start(spark, topic, tmp_path, "another-group").awaitTermination()
    assert topic.committed(group) == [-1001] * 3

    start(spark, topic, tmp_path, group).awaitTermination()

    assert topic.committed(group) == topic.ends()


def test_a_group_with_members_refuses_the_query(spark: SparkSession, topic: Topic, tmp_path: Path, group: str) -> None:
    """A group with members refuses a query, because two readers of one group would overwrite each other's offsets."""
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


def eventually(condition: Any) -> None:
    """Waits until the condition holds; it depends on another process."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
