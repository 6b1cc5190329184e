"""Tests differences between the sink and Spark's own connector: modes, triggers, refusals, limits of record batches.

docs/reference/spark-sink.md describes these and all other differences.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.patience import Limit
from tests.support.spark_topics import Topic

import klamm.spark
from klamm.spark.data_source import KlammDataSource
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.stream_writer import KlammStreamWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import StructType

# The first test starts Spark and may have to find jars.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    """Returns two rows."""
    return spark.range(2).selectExpr("string(id) value")


def options(topic: Topic, **more: str) -> dict[str, str]:
    """Returns options that write into the topic."""
    return {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name, **more}


def values(topic: Topic) -> list[bytes | None]:
    """Returns the sorted values in the topic."""
    return sorted((record.value for record in itertools.chain(*topic.records())), key=str)


def test_the_save_mode(frame: DataFrame, connector: str, topic: Topic) -> None:
    """Spark refuses its default save mode for a Python sink; the connector accepts the default mode."""
    frame.write.format(connector).options(**options(topic)).save()
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        frame.write.format("klamm").options(**options(topic)).save()
    frame.write.format("klamm").mode("append").options(**options(topic)).save()

    assert values(topic) == [b"0", b"0", b"1", b"1"]


def test_the_output_mode_update(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """Spark refuses the output mode `update` for a Python sink; the connector supports the mode."""
    source = new_topic()
    source.produce(["a", "a"])
    counts = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    counts = counts.groupBy("value").count().selectExpr("string(count) value")

    def run(name: str, topic: Topic) -> list[bytes | None]:
        writer = counts.writeStream.format(name).outputMode("update").options(**options(topic))
        writer = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True)
        writer.start().awaitTermination()
        return values(topic)

    assert run(connector, new_topic(partitions=3)) == [b"2"]
    with pytest.raises(Exception, match="klamm does not support Update mode"):
        run("klamm", new_topic(partitions=3))


@pytest.mark.parametrize(
    ("ignored", "message"),
    [
        ({"path": "/nowhere"}, "the option 'topic' names the topic"),
        ({"subscribe": "a"}, "the option 'subscribe' is for reading"),
        ({"topics": "a"}, "did you mean topic"),
        ({"includeHeaders": "maybe"}, "includeHeaders=maybe: it is true or false"),
        ({"kafka.group.id": "g"}, "it is no configuration key of Kafka's producer"),
    ],
)
def test_options_that_do_not_exist(
    frame: DataFrame, connector: str, topic: Topic, ignored: dict[str, str], message: str
) -> None:
    """klamm refuses options that do not exist; the connector ignores such options."""
    frame.write.format(connector).options(**options(topic, **ignored)).mode("append").save()
    assert values(topic) == [b"0", b"1"]

    with pytest.raises(Exception, match=message):
        frame.write.format("klamm").options(**options(topic, **ignored)).mode("append").save()
    assert values(topic) == [b"0", b"1"]


def test_columns_to_partition_by(frame: DataFrame, connector: str, topic: Topic) -> None:
    """Spark refuses partitioning columns for a Python sink; the connector ignores such columns."""
    frame.write.format(connector).options(**options(topic)).partitionBy("value").save()
    with pytest.raises(Exception, match="partitioning or clustering columns do not match"):
        frame.write.format("klamm").options(**options(topic)).mode("append").partitionBy("value").save()

    assert values(topic) == [b"0", b"1"]


def test_a_partition_that_is_not_there(spark: SparkSession, connector: str, topic: Topic) -> None:
    """A row for a missing partition fails klamm's task at once; the connector waits for the partition."""
    frame = spark.range(1).selectExpr("string(id) value", "3 partition")
    waits = {"kafka.max.block.ms": "1000"}
    for source, words in ((connector, "not present in metadata after 1000 ms"), ("klamm", "partition 3")):
        with pytest.raises(Exception, match=words):
            frame.write.format(source).mode("append").options(**options(topic, **waits)).save()


def test_a_batch_above_the_limit_of_the_topic(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic]
) -> None:
    """A record batch above `max.message.bytes` fails klamm's task, with what to set; the connector splits the batch."""
    small = new_topic(partitions=3, **{"max.message.bytes": "50000"})
    frame = spark.range(1000).coalesce(1).selectExpr("repeat('x', 100) value")
    large = options(small, **{"kafka.batch.size": "131072", "kafka.linger.ms": "1000"})
    frame.write.format(connector).options(**large).save()
    assert len(values(small)) == 1000
    with pytest.raises(Exception, match=r"lower batch\.size, or raise max\.message\.bytes of the topic"):
        frame.write.format("klamm").mode("append").options(**options(small)).save()
    assert len(values(small)) == 1000

    frame.write.format("klamm").mode("append").options(**options(small, **{"kafka.batch.size": "16384"})).save()

    assert len(values(small)) == 2000


def test_asynchronous_progress_tracking(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """Spark refuses asynchronous progress tracking for a Python sink; the connector supports it."""
    frame = spark.readStream.format("rate").load().selectExpr("string(value) value")

    def run(name: str) -> None:
        writer = frame.writeStream.format(name).options(**options(new_topic(partitions=3)))
        query = writer.options(asyncProgressTrackingEnabled="true", checkpointLocation=str(tmp_path / name)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    run(connector)
    with pytest.raises(Exception, match="Sink klamm does not support async progress tracking"):
        run("klamm")


def test_asynchronous_progress_tracking_with_foreach_batch(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """Spark refuses asynchronous progress tracking for `foreachBatch`, too, so `write_topic` never meets it."""
    write = klamm.spark.write_topic(**options(topic, **{"klamm.sink.semantics": "exactly-once"}))
    frame = spark.readStream.format("rate").load().selectExpr("string(value) value")
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))

    def run() -> None:
        query = writer.option("asyncProgressTrackingEnabled", "true").start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    with pytest.raises(Exception, match="Sink ForeachBatchSink does not support async progress tracking"):
        run()
    assert values(topic) == []


def test_a_continuous_trigger(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """With a continuous trigger, Spark passes no rows to a Python sink. klamm refuses the first commit, and Spark calls
    no other one, so the checkpoint has no commit. The query runs on. The connector writes the rows."""
    refusals = tmp_path / "refusals"

    class WatchedWriter(KlammStreamWriter):
        """The writer, which notes why it refuses a commit."""

        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            try:
                super().commit(messages, batchId)
            except Exception as error:
                with refusals.open("a") as file:
                    file.write(f"{error}\n")
                raise

    class WatchedSink(KlammDataSource):
        """The sink with this writer."""

        @classmethod
        def name(cls) -> str:
            return "klamm-watched"

        def streamWriter(self, schema: StructType, overwrite: bool) -> KlammStreamWriter:
            parsed = SinkOptions.parse(self.options)
            return WatchedWriter(parsed, SinkColumns.of(schema, parsed.topic))

    spark.dataSource.register(WatchedSink)
    frame = spark.readStream.format("rate").option("numPartitions", 1).option("rowsPerSecond", 100).load()

    def start(name: str, topic: Topic) -> StreamingQuery:
        writer = frame.selectExpr("string(value) value").writeStream.format(name).options(**options(topic))
        return writer.option("checkpointLocation", str(tmp_path / name)).trigger(continuous="200 milliseconds").start()

    topic = new_topic(partitions=3)
    query = start(connector, topic)
    try:
        wait_until(lambda: bool(values(topic)))
    finally:
        query.stop()

    other, checkpoint = new_topic(partitions=3), tmp_path / "klamm-watched"
    query = start("klamm-watched", other)
    try:
        wait_until(refusals.exists)
        wait_until(lambda: len(list((checkpoint / "offsets").glob("[0-9]*"))) > 5)
        assert query.isActive
    finally:
        query.stop()
    assert len(refusals.read_text().splitlines()) == 1
    assert "Spark passes no rows to a sink in Python with trigger(continuous=…)" in refusals.read_text()
    assert list((checkpoint / "commits").glob("*")) == []
    assert values(other) == []


def wait_until(is_true: Callable[[], bool]) -> None:
    """Waits until a condition is true."""
    limit = Limit(60)
    while not is_true():
        assert not limit.is_over
        time.sleep(0.02)
