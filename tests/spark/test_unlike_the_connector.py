"""Tests each difference between the source and Spark's own connector that docs/reference/spark-source.md describes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.support.spark_queries import Batches, Runs
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The first test starts Spark and may have to find jars.
pytestmark = pytest.mark.timeout(300)

# Without these options, the connector's retries would take seconds for each refusal.
HASTE = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "0"}
GOING_ON = {"failOnDataLoss": "false"}


@pytest.fixture
def read(spark: SparkSession, topic: Topic) -> Callable[..., list[str]]:
    """Returns a function that reads the topic: `read(source, {option: value})`."""

    def values(source: str, options: dict[str, Any]) -> list[str]:
        chosen = topic.options(**HASTE, **options)
        frame = spark.read.format(source).options(**chosen).load().selectExpr("string(value)")
        return sorted(row[0] for row in frame.collect())

    return values


def test_an_assigned_partition_that_is_not_there(connector: str, topic: Topic, read: Callable[..., list[str]]) -> None:
    """For klamm, a missing assigned partition counts as loss; the connector ignores the partition silently."""
    topic.produce(range(5), 0)
    assigned = {"assign": json.dumps({topic.name: [0, 9]})}

    assert read(connector, assigned) == read("klamm", assigned | GOING_ON) == ["0", "1", "2", "3", "4"]
    with pytest.raises(Exception, match=f"{topic.name}-9: no such topic or partition"):
        read("klamm", assigned)


def test_a_start_beyond_an_end_that_is_a_word(connector: str, topic: Topic, read: Callable[..., list[str]]) -> None:
    """For klamm, a start beyond the end `latest` counts as loss; the connector always refuses such a start."""
    topic.produce(range(5), 0)
    topic.produce(range(5, 7), 1)
    starting = {"startingOffsets": json.dumps({topic.name: {"0": 9, "1": 0, "2": 0}})}

    for options in (starting, starting | GOING_ON):
        with pytest.raises(Exception, match="resolved start offset 9 is greater than the resolved end offset 5"):
            read(connector, options)
    assert read("klamm", starting | GOING_ON) == ["5", "6"]
    with pytest.raises(Exception, match=f"{topic.name}-0's offset was changed from 9 to 5"):
        read("klamm", starting)


def test_an_end_within_an_open_transaction(connector: str, topic: Topic, read: Callable[..., list[str]]) -> None:
    """An end within an open transaction always fails klamm's read of committed records, because no record is lost.

    For the connector, the records of the open transaction are lost, and `failOnDataLoss` applies.
    """
    topic.produce(range(3), 0)
    # The transaction stays open during all reads, also on a busy machine.
    settings = {"transactional.id": topic.name, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, **settings})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic.name, "3", partition=0)
    assert producer.flush(60) == 0
    ending = {
        "endingOffsets": json.dumps({topic.name: {"0": 4, "1": 0, "2": 0}}),
        "kafka.isolation.level": "read_committed",
        "kafkaConsumer.pollTimeoutMs": "1000",
    }

    assert read(connector, ending | GOING_ON) == ["0", "1", "2"]
    with pytest.raises(Exception, match=r"(?s)Could not read records in .*\[3, 4\)"):
        read(connector, ending)
    for options in (ending, ending | GOING_ON):
        with pytest.raises(Exception, match="a transaction may be open there"):
            read("klamm", options)
    producer.abort_transaction(60)


def tasks_in(frame: DataFrame) -> int:
    return frame.selectExpr("spark_partition_id()").distinct().count()


def test_tasks_of_a_batch_read(spark: SparkSession, connector: str, topic: Topic) -> None:
    """klamm does not count empty partitions towards `minPartitions`; the connector counts them."""
    topic.produce(range(6), 0)
    options = topic.options(minPartitions=3)

    assert tasks_in(spark.read.format("klamm").options(**options).load()) == 3
    assert tasks_in(spark.read.format(connector).options(**options).load()) == 1


def test_tasks_of_a_micro_batch(spark: SparkSession, connector: str, topic: Topic, tmp_path: Path) -> None:
    """With klamm, several partitions with few records share a task; with the connector each partition has its own."""
    for partition in range(3):
        topic.produce(range(5), partition)

    class Tasks(Batches):
        def __call__(self, frame: DataFrame, batch_id: int) -> None:
            seen.append(tasks_in(frame))

    for source, tasks in (("klamm", 1), (connector, 3)):
        seen: list[int] = []
        runs = Runs(spark, topic, tmp_path / source, source)
        runs.start(Tasks(), available_now=True, startingOffsets="earliest").awaitTermination()
        assert seen == [tasks]


def test_when_a_wrong_option_is_refused(spark: SparkSession, connector: str, topic: Topic, tmp_path: Path) -> None:
    """klamm's `load()` refuses wrong options, except those that are wrong only for a batch or only for a stream.

    klamm's `load()` cannot know yet which of the two is read. The connector knows, and checks some options later.
    """
    latest = topic.options(startingOffsets="latest")
    member = topic.options(kafka_group_id="g") | {"klamm.group.mode": "member"}
    ending = topic.options(endingOffsets="latest")
    limit = topic.options(maxOffsetsPerTrigger="few")

    for options, words in ((latest, "can't be latest for batch queries"), (member, "is for streaming queries")):
        frame = spark.read.format("klamm").options(**options).load()
        with pytest.raises(Exception, match=words):
            frame.collect()
    with pytest.raises(Exception, match="can't be latest for batch queries"):
        spark.read.format(connector).options(**latest).load()

    frame = spark.readStream.format("klamm").options(**ending).load()
    with pytest.raises(Exception, match="ending offset not valid in streaming queries"):
        frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    with pytest.raises(Exception, match="ending offset not valid in streaming queries"):
        spark.readStream.format(connector).options(**ending).load()

    with pytest.raises(Exception, match="maxOffsetsPerTrigger=few"):
        spark.readStream.format("klamm").options(**limit).load()
    spark.readStream.format(connector).options(**limit).load()


def test_a_topic_that_is_deleted_while_available_now_runs(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """With klamm, a topic deleted during the query counts as loss; the connector fails even if losses are skipped."""

    def run(source: str, **options: str) -> list[str]:
        topic = new_topic()
        topic.produce(range(10))

        class Deleting(Batches):
            def __call__(self, frame: DataFrame, batch_id: int) -> None:
                super().__call__(frame, batch_id)
                if batch_id == 0:
                    topic.delete()

        sink = Deleting()
        runs = Runs(spark, topic, tmp_path / topic.name, source)
        asked = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "5", **HASTE, **options}
        runs.start(sink, available_now=True, **asked).awaitTermination()
        return sink.values

    assert run("klamm", **GOING_ON) == ["0", "1", "2", "3", "4"]
    for source, options in (("klamm", {}), (connector, GOING_ON), (connector, {})):
        with pytest.raises(Exception, match=r"does not exist|UnknownTopicOrPartition|LOST_TOPIC_PARTITIONS"):
            run(source, **options)


def test_a_load_is_planned_once(spark: SparkSession, connector: str, topic: Topic) -> None:
    """With klamm, the first action on a `load()` plans the read; with the connector, each action plans it again."""
    topic.produce(range(5))
    theirs, ours = (spark.read.format(source).options(**topic.options()).load() for source in (connector, "klamm"))
    assert theirs.count() == ours.count() == 5

    topic.produce(range(5, 8))

    assert theirs.count() == 8
    assert ours.count() == 5
    assert spark.read.format("klamm").options(**topic.options()).load().count() == 8


def test_a_continuous_trigger(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """Spark refuses a continuous trigger for klamm's source, which is a source in Python; the connector has one."""
    frame = spark.readStream.format("klamm").options(**topic.options()).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))

    with pytest.raises(Exception, match="does not support continuous processing"):
        writer.trigger(continuous="1 second").start()
