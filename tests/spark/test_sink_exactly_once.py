"""Tests streaming queries with `klamm.sink.semantics=exactly-once`, as docs/reference/spark-sink.md describes them."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.spark_queries import Runs
from tests.support.spark_topics import Record, Topic, create_topic

import klamm.spark
from klamm.spark.source.errors import OptionError
from klamm.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def source(new_topic: Callable[..., Topic]) -> Topic:
    """Creates a topic to read from."""
    return new_topic(partitions=2)


def options(topic: Topic, **more: str) -> dict[str, str]:
    """Returns options that write into the topic exactly once."""
    return {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "topic": topic.name,
        "klamm.sink.semantics": "exactly-once",
        **more,
    }


def copy(spark: SparkSession, source: Topic, into: Topic, checkpoint: Path, **more: str) -> None:
    """Copies the existing records of a topic in micro-batches of at most 50 records."""
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest"))
    writer = frame.option("maxOffsetsPerTrigger", "50").load().select("key", "value").writeStream.format("klamm")
    writer = writer.options(**options(into, **more)).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def values(topic: Topic) -> Counter[bytes | None]:
    """Returns the committed values in the topic, with the number of records for each value."""
    return Counter(record.value for record in itertools.chain(*topic.records()))


def numbers(until: int) -> Counter[bytes | None]:
    """Returns the expected values: each number below `until` once."""
    return Counter(str(number).encode() for number in range(until))


def files_in(folder: Path) -> list[Path]:
    """Returns the files below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("inline", ["0", "1048576"])
def test_a_micro_batch_that_spark_repeats_is_dropped(
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path, inline: str
) -> None:
    """A repeated micro-batch is dropped, whether tasks pass their batches in messages or in files.

    Only large tasks use files, which lie in the checkpoint and are deleted afterwards.
    """
    for until in (120, 240):
        source.produce(range(until - 120, until))
        copy(spark, source, topic, tmp_path, **{"klamm.sink.inline.bytes": inline})
        assert values(topic) == numbers(until)
    Runs(spark, source, tmp_path).forget_last_commit()
    source.produce(range(240, 250))

    copy(spark, source, topic, tmp_path, **{"klamm.sink.inline.bytes": inline})

    assert values(topic) == numbers(250)
    assert (tmp_path / "klamm-sink").exists() == (inline == "0")
    assert files_in(tmp_path / "klamm-sink") == []


def test_a_checkpoint_whose_path_has_special_characters(
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path
) -> None:
    """Source and sink find the checkpoint, also if its path has a space and something that looks like an escape."""
    checkpoint = tmp_path / "a b%20c"
    source.produce(range(60))
    copy(spark, source, topic, checkpoint, **{"klamm.sink.inline.bytes": "0"})

    assert values(topic) == numbers(60)
    assert {"commits", "klamm-sink", "metadata", "offsets", "sources"} <= {path.name for path in checkpoint.iterdir()}
    assert (checkpoint / "sources" / "0" / "0").exists()
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.name]


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
def test_large_tasks_move_to_a_file(
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path, scheme: str
) -> None:
    """Large tasks write several record batches per partition to files in the folder `klamm.sink.staging`.

    The scheme `local` is another name of the local file system in pyarrow. The sink does not know it, and uses
    `pyarrow.fs` as for a remote file system.
    """
    staging = tmp_path / "staging"
    source.produce("x" * 1000 + str(number) for number in range(100))
    location = f"{scheme}{staging}"
    more = {"klamm.sink.staging": location, "klamm.sink.inline.bytes": "5000", "kafka.batch.size": "2000"}
    copy(spark, source, topic, tmp_path / "checkpoint", **more)

    assert values(topic) == Counter(("x" * 1000 + str(number)).encode() for number in range(100))
    assert staging.is_dir()
    assert files_in(staging) == []


@pytest.fixture
def small_results(spark: SparkSession) -> Iterator[None]:
    """Lets Spark refuse task results of more than 40 KiB in all; Spark reads the setting for each set of tasks."""
    context = spark.sparkContext._jsc.sc()
    before = spark.sparkContext.getConf().get("spark.driver.maxResultSize", "1g")
    context.conf().set("spark.driver.maxResultSize", "40k")
    yield
    context.conf().set("spark.driver.maxResultSize", before)


@pytest.mark.usefixtures("small_results")
def test_messages_above_the_limit_of_spark(spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path) -> None:
    """If the messages of all tasks are larger than `spark.driver.maxResultSize`, Spark ends the query, names this
    setting, and nothing is written. With a lower `klamm.sink.inline.bytes`, the query goes on."""
    source.produce("x" * 1000 + str(number) for number in range(100))
    with pytest.raises(
        Exception, match=r"Total size of serialized results .* is bigger than spark.driver.maxResultSize"
    ):
        copy(spark, source, topic, tmp_path)
    assert values(topic) == Counter()

    copy(spark, source, topic, tmp_path, **{"klamm.sink.inline.bytes": "5000"})

    assert values(topic) == Counter(("x" * 1000 + str(number)).encode() for number in range(100))


def test_an_older_copy_of_the_checkpoint_is_refused(
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path
) -> None:
    """A query with an older copy of the checkpoint fails without a traceback and writes nothing."""
    import shutil

    source.produce(range(10))
    copy(spark, source, topic, tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "older")
    source.produce(range(10, 20))
    copy(spark, source, topic, tmp_path / "checkpoint")

    source.produce(range(20, 30))
    with pytest.raises(Exception, match="the topics have another micro-batch 1 of this query") as failed:
        copy(spark, source, topic, tmp_path / "older")
    assert "Traceback" not in str(failed.value)
    assert values(topic) == numbers(20)


def counts_of(spark: SparkSession, source: Topic) -> DataFrame:
    """Returns a stream with the number of records for each value in the source."""
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    return frame.groupBy("value").count().selectExpr("value key", "string(count) value")


@pytest.mark.parametrize("inline", ["0", "1048576"])
def test_update_mode_through_foreach_batch(
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path, inline: str
) -> None:
    """In update mode through `foreachBatch`, the sink finds the checkpoint and drops a repeated micro-batch."""
    write = klamm.spark.write_topic(**options(topic), **{"klamm.sink.inline.bytes": inline})

    def run() -> None:
        query = counts_of(spark, source).writeStream.outputMode("update").foreachBatch(write)
        query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    source.produce(["a", "b", "a"])
    run()
    Runs(spark, source, tmp_path).forget_last_commit()
    source.produce(["b", "c"])
    run()

    written = sorted(itertools.chain(*topic.records()))
    assert written == [Record(b"a", b"2"), Record(b"b", b"1"), Record(b"b", b"2"), Record(b"c", b"1")]
    assert files_in(tmp_path / "klamm-sink") == []


@pytest.mark.parametrize("spelling", ["the same", "another"])
@pytest.mark.parametrize("first_fails", [False, True])
def test_a_second_write_with_the_same_marker_is_refused(  # noqa: PLR0917
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path, spelling: str, first_fails: bool
) -> None:
    """A second write in one micro-batch is refused, because it would be dropped as a repetition of the first. The
    cluster counts, not the text of its addresses. A write that failed may be repeated, but not by another write."""
    first = klamm.spark.write_topic(**options(topic))
    host, _, port = topic.bootstrap_servers.rpartition(":")
    servers = topic.bootstrap_servers if spelling == "the same" else f"{host}:{port},localhost:{port}"
    # The number of bytes makes it another write also with the same addresses.
    others = options(topic, **{"kafka.bootstrap.servers": servers, "klamm.sink.inline.bytes": "1000"})
    second = klamm.spark.write_topic(**others)
    refusals: list[Exception] = []
    done = threading.Event()

    def twice(frame: DataFrame, batch_id: int) -> None:
        if first_fails:
            with pytest.raises(Exception, match="value"):
                first(frame.selectExpr("1 value"), batch_id)
        else:
            first(frame, batch_id)
        try:
            second(frame, batch_id)
        except OptionError as error:
            refusals.append(error)
        if first_fails:
            first(frame, batch_id)
        done.set()

    source.produce(range(5))
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    query = frame.select("value").writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start().awaitTermination()

    assert done.is_set()
    assert [str(each)[:13] for each in refusals] == ["micro-batch 0"]
    assert values(topic) == numbers(5)


def test_two_clusters_in_one_micro_batch(spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path) -> None:
    """Two clusters have markers of their own, also for topics with the same name."""
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        other = create_topic(admin, broker.bootstrap_servers, topic.name, 3, {})
        writes = [klamm.spark.write_topic(**options(each)) for each in (topic, other)]

        def write_both(frame: DataFrame, batch_id: int) -> None:
            for write in writes:
                write(frame, batch_id)

        source.produce(range(5))
        frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
        query = frame.select("value").writeStream.foreachBatch(write_both).option("checkpointLocation", str(tmp_path))
        query.trigger(availableNow=True).start().awaitTermination()

        assert values(topic) == values(other) == numbers(5)


@pytest.mark.parametrize("writes_before_failure", [1, 2])
def test_two_topics_in_one_micro_batch(  # noqa: PLR0917
    spark: SparkSession,
    source: Topic,
    topic: Topic,
    new_topic: Callable[..., Topic],
    tmp_path: Path,
    writes_before_failure: int,
) -> None:
    """A function for `foreachBatch` writes two topics and fails between or after the writes. The repetition of the
    micro-batch writes only what is missing."""
    other = new_topic(partitions=1)
    writes = [klamm.spark.write_topic(**options(each)) for each in (topic, other)]
    failures = [RuntimeError("the function fails once")]

    def write_both(frame: DataFrame, batch_id: int) -> None:
        for number, write in enumerate(writes, 1):
            write(frame, batch_id)
            if number == writes_before_failure and failures:
                raise failures.pop()

    def run() -> None:
        frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
        query = frame.select("value").writeStream.foreachBatch(write_both).option("checkpointLocation", str(tmp_path))
        query.trigger(availableNow=True).start().awaitTermination()

    source.produce(range(5))
    with pytest.raises(Exception, match="the function fails once"):
        run()
    run()

    assert values(topic) == numbers(5)
    assert Counter(record.value for record in other.records(1)[0]) == numbers(5)


def test_a_batch_write_is_refused(spark: SparkSession, topic: Topic) -> None:
    """A batch write with exactly-once semantics is refused, because it has no checkpoint."""
    frame = spark.range(3).selectExpr("string(id) value")
    with pytest.raises(Exception, match="exactly-once needs a streaming query"):
        frame.write.format("klamm").mode("append").options(**options(topic)).save()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"kafka.transaction.timeout.ms": "2000000000"}, r"more than the broker's transaction.max.timeout.ms"),
        ({"klamm.sink.staging": "/proc/nowhere", "klamm.sink.inline.bytes": "0"}, "the staging folder /proc/nowhere"),
    ],
)
def test_a_limit_is_explained(  # noqa: PLR0917
    spark: SparkSession, source: Topic, topic: Topic, tmp_path: Path, more: dict[str, str], message: str
) -> None:
    """A query fails with a message that names the exceeded limit, and continues once the cause is removed."""
    source.produce(range(5))
    with pytest.raises(Exception, match=message) as failed:
        copy(spark, source, topic, tmp_path, **more)
    assert "Traceback" not in str(failed.value)
    assert values(topic) == Counter()

    copy(spark, source, topic, tmp_path)
    assert values(topic) == numbers(5)
