"""Tests batch writes and streaming queries with `format("klamm")`, as docs/reference/spark-sink.md describes them."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.support.spark_queries import Runs
from tests.support.spark_topics import Record, Topic, create_topic

import klamm.spark
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.protocol.schema.describe_producers_request import DescribeProducersRequest, TopicRequest
from klamm.protocol.schema.describe_producers_response import DescribeProducersResponse
from klamm.spark.source.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.timeout(300)


def options(topic: Topic, **more: str) -> dict[str, str]:
    """Returns options that write into the topic."""
    return {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name, **more}


def rows(spark: SparkSession, count: int, tasks: int = 4) -> DataFrame:
    """Returns rows with one of 50 keys, and the row's number as the value."""
    return spark.range(0, count, 1, tasks).selectExpr("concat('k', id % 50) key", "string(id) value")


def values(topic: Topic, partitions: int = 3) -> list[int]:
    """Returns the values in the topic as sorted numbers."""
    return sorted(int(record.value or -1) for record in itertools.chain(*topic.records(partitions)))


def test_a_batch_is_read_back(spark: SparkSession, topic: Topic) -> None:
    """The source and librdkafka read the written rows, and each key has the partition of librdkafka's murmur2."""
    rows(spark, 20_000).write.format("klamm").mode("append").options(**options(topic)).save()

    read = spark.read.format("klamm").options(**topic.options()).load()
    assert read.selectExpr("count(distinct value)", "count(value)").collect() == [(20_000, 20_000)]
    records = topic.records()
    assert values(topic) == list(range(20_000))
    theirs = create_topic(topic.admin, topic.bootstrap_servers, f"rdkafka-{uuid.uuid4().hex[:8]}", 3, {})
    theirs.produce_records([{"key": f"k{index}"} for index in range(50)], partitioner="murmur2_random")
    assert [{record.key for record in each} for each in records] == [
        {record.key for record in each} for each in theirs.records()
    ]


def test_the_partitioner_of_librdkafka(spark: SparkSession, topic: Topic, new_topic: Callable[..., Topic]) -> None:
    """With `klamm.partitioner=consistent_random`, records have the partitions of librdkafka's default partitioner."""
    ours = options(topic, **{"klamm.partitioner": "consistent_random"})
    frame = spark.range(100).selectExpr("concat('k', id) key", "string(id) value")
    frame.coalesce(1).write.format("klamm").mode("append").options(**ours).save()
    theirs = new_topic(partitions=3)
    theirs.produce_records([{"key": f"k{index}", "value": str(index)} for index in range(100)])

    assert topic.records() == theirs.records()


@pytest.fixture
def source(new_topic: Callable[..., Topic]) -> Topic:
    """Creates a topic to read from."""
    return new_topic(partitions=2)


def start(spark: SparkSession, source: Topic, into: Topic, checkpoint: Path, **more: str) -> StreamingQuery:
    """Starts a query that copies the existing records of a topic and ends."""
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    writer = frame.select("key", "value", "offset").writeStream.format("klamm").options(**options(into, **more))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path) -> None:
    """A stream continues where it stopped, and without a failure writes each record once."""
    for first in (0, 100, 200):
        source.produce(range(first, first + 100))
        start(spark, source, topic, tmp_path, queryName="ignored").awaitTermination()
        assert values(topic) == list(range(first + 100))


def test_a_micro_batch_that_spark_repeats_is_written_again(
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path
) -> None:
    """A micro-batch that Spark repeats after a crash before the commit log is written again (at least once)."""
    source.produce(range(100))
    start(spark, source, topic, tmp_path).awaitTermination()
    Runs(spark, source, tmp_path).forget_last_commit()
    source.produce(range(100, 110))

    start(spark, source, topic, tmp_path).awaitTermination()

    assert values(topic) == sorted([*range(100), *range(110)])


def producer_ids(topic: Topic) -> set[int]:
    """Returns the ids of the producers that have written into the topic."""
    cluster = Cluster(ClientConfig.from_mapping({"bootstrap.servers": topic.bootstrap_servers}))
    try:
        cluster.ensure([topic.name])
        broker = cluster.connection_to(cluster.brokers()[0])
        asked = TopicRequest(name=topic.name, partition_indexes=[0, 1, 2])
        answer = broker.request(DescribeProducersRequest(topics=[asked]), DescribeProducersResponse)
    finally:
        cluster.close()
    return {producer.producer_id for each in answer.topics[0].partitions for producer in each.active_producers}


def test_a_stream_keeps_its_producer(spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path) -> None:
    """A worker process keeps its producer for the next micro-batches of a stream."""
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    writer = frame.select("value").writeStream.format("klamm").options(**options(topic))
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        for batch in range(12):
            source.produce([batch])
            query.processAllAvailable()
    finally:
        query.stop()

    assert values(topic) == list(range(12))
    # Reads and writes share Spark's workers, and Spark starts another worker if none is free.
    assert len(producer_ids(topic)) < 12


def test_a_task_that_fails_is_repeated(spark: SparkSession, topic: Topic) -> None:
    """After a failed task is repeated, the topic has all its records, and may have some of them twice."""

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                raise ValueError("the first attempt fails")

    frame = rows(spark, 40_000, 2).mapInArrow(fail_once, "key string, value string")
    frame.write.format("klamm").mode("append").options(**options(topic)).save()

    assert sorted(set(values(topic))) == list(range(40_000))


def test_a_missing_topic_is_created(spark: SparkSession, topic: Topic) -> None:
    """A write to a missing topic lets the broker create the topic, as with Spark's own sink."""
    name = f"created-{uuid.uuid4().hex[:12]}"
    rows(spark, 10).write.format("klamm").mode("append").options(**options(topic)).option("topic", name).save()

    created = Topic(name, topic.bootstrap_servers, topic.admin)
    assert values(created, partitions=1) == list(range(10))


def test_update_mode_through_foreach_batch(spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path) -> None:
    """In update mode through `foreachBatch`, each micro-batch writes the rows that changed."""
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    counts = frame.groupBy("value").count().selectExpr("value key", "string(count) value")
    write = klamm.spark.write_topic(**options(topic))
    for words in (["a", "b", "a"], ["b", "c"]):
        source.produce(words)
        query = counts.writeStream.outputMode("update").foreachBatch(write)
        query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    written = sorted(itertools.chain(*topic.records()))
    assert written == [Record(b"a", b"2"), Record(b"b", b"1"), Record(b"b", b"2"), Record(b"c", b"1")]


def test_an_error_in_foreach_batch_names_the_micro_batch(
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path
) -> None:
    """An error in `foreachBatch` contains the ids of the query and of the micro-batch.

    `write_topic` refuses wrong options before any query runs.
    """
    with pytest.raises(OptionError, match=r"unknown option 'topics' .* did you mean topic\?"):
        klamm.spark.write_topic(topics="a", **{"kafka.bootstrap.servers": "h:1"})
    source.produce(["x" * 2000])
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    small = klamm.spark.write_topic(**options(topic), **{"kafka.max.request.size": 1000})
    query = frame.select("value").writeStream.foreachBatch(small).option("checkpointLocation", str(tmp_path))
    running = query.trigger(availableNow=True).start()
    with pytest.raises(Exception, match=f"micro-batch 0 of the query {running.id}: "):
        running.awaitTermination()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"topc": "a"}, r"unknown option 'topc' .* did you mean topic\?"),
        ({"klamm.sink.semantics": "exactly-once", "kafka.acks": "1"}, "need kafka.acks=all"),
        ({"kafka.max.request.size": "1000"}, "max.request.size"),
    ],
)
def test_a_stream_that_can_not_write_fails_in_one_sentence(  # noqa: PLR0917
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path, more: dict[str, str], message: str
) -> None:
    """A stream that cannot write fails with klamm's message and without a traceback."""
    source.produce(["x" * 2000])
    with pytest.raises(Exception, match=message) as failed:
        start(spark, source, topic, tmp_path, **more).awaitTermination()
    assert "Traceback" not in str(failed.value)
