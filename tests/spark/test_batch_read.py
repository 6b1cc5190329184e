"""Tests that `spark.read.format("klamm")` returns exactly the produced records."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.support.spark_topics import Topic

from klamm.spark.source.schema import spark_schema
from klamm.spark.source.tasks.arrow_schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TIME = 1_700_000_000_000
KEYS = [None, b"", b"key", bytes(range(256))]
VALUES = [None, b"", b"value", b"x" * 100_000]
HEADERS: list[list[tuple[str, bytes | None]] | None] = [None, [("a", b"1")], [("a", None), ("ü", b""), ("a", b"2")]]


def read(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("klamm").options(**options).load()


def values_of(frame: DataFrame) -> list[str]:
    return sorted(row[0] for row in frame.selectExpr("string(value)").collect())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_the_records(spark: SparkSession, topic: Topic, codec: str) -> None:
    """The rows equal the records: null and empty keys and values, headers and timestamps, with every codec."""
    records = [
        {"key": key, "value": value, "headers": headers, "timestamp": 1_700_000_000_000 + 7 * index}
        for index, (key, value, headers) in enumerate(
            (key, value, headers) for key in KEYS for value in VALUES for headers in HEADERS
        )
    ]
    for partition in range(3):
        topic.produce_records(records, partition, **{"compression.type": codec, "linger.ms": 20})

    rows = read(spark, topic.options(includeHeaders="true")).orderBy("partition", "offset").collect()

    expected = [
        (
            record["key"],
            record["value"],
            topic.name,
            partition,
            offset,
            record["timestamp"],
            0,
            record["headers"],
        )
        for partition in range(3)
        for offset, record in enumerate(records)
    ]
    assert [as_tuple(row) for row in rows] == expected


def as_tuple(row: Any) -> tuple[Any, ...]:
    """Returns a row with binary values as bytes, the timestamp in milliseconds, and headers as pairs."""
    key, value, topic, partition, offset, timestamp, timestamp_type, headers = row
    return (
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        topic,
        partition,
        offset,
        round(timestamp.timestamp() * 1000),
        timestamp_type,
        None if headers is None else [(h[0], None if h[1] is None else bytes(h[1])) for h in headers],
    )


def test_the_columns_are_those_of_sparks_own_source(spark: SparkSession, topic: Topic) -> None:
    """A read has the columns of Spark's own source, and the Arrow schema is the one that Spark derives from them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    assert read(spark, topic.options()).schema == spark_schema(include_headers=False)
    for include_headers in (False, True):
        assert arrow_schema(include_headers=include_headers).equals(
            to_arrow_schema(spark_schema(include_headers=include_headers), timezone="UTC")
        )


def test_the_brokers_time_is_read_where_the_topic_says_so(spark: SparkSession, new_topic: Callable[..., Topic]) -> None:
    """With LogAppendTime (timestampType 1), rows have the broker's time instead of the producer's timestamp."""
    topic = new_topic(message_timestamp_type="LogAppendTime")
    topic.produce_records([{"value": b"v", "timestamp": 1}])

    (row,) = read(spark, topic.options()).collect()

    assert row.timestampType == 1
    assert row.timestamp.replace(tzinfo=None) > dt.datetime(2020, 1, 1)


def test_a_time_that_spark_can_not_hold_fails_the_read(spark: SparkSession, new_topic: Callable[..., Topic]) -> None:
    """A timestamp in nanoseconds fails the read, and the error names the record. Spark would show a wrong time."""
    topic = new_topic(message_timestamp_after_max_ms=str(2**63 - 1))
    topic.produce_records([{"value": b"v", "timestamp": timestamp} for timestamp in (TIME, TIME * 1_000_000)])

    with pytest.raises(Exception, match=rf"{topic.name}-0: the record at offset 1 has the timestamp {TIME}000000"):
        read(spark, topic.options()).collect()
    ending = json.dumps({topic.name: {"0": 1}})
    assert read(spark, topic.options(endingOffsets=ending)).count() == 1


def test_only_what_lies_between_the_offsets_is_read(spark: SparkSession, topic: Topic) -> None:
    """Only records between the offsets are read, also within a batch; -2 (earliest) and -1 (latest) can be used."""
    for partition in range(3):
        topic.produce((f"{partition}-{index}" for index in range(10)), partition, **{"linger.ms": 50})
    starting = {topic.name: {"0": 3, "1": -2, "2": 9}}
    ending = {topic.name: {"0": 5, "1": 2, "2": -1}}

    frame = read(spark, topic.options(startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending)))

    assert values_of(frame) == ["0-3", "0-4", "1-0", "1-1", "2-9"]


def test_single_partitions_can_be_assigned(spark: SparkSession, topic: Topic) -> None:
    """The option `assign` reads only the given partitions of a topic."""
    for partition in range(3):
        topic.produce([partition], partition)

    assert values_of(read(spark, topic.options(assign=json.dumps({topic.name: [0, 2]})))) == ["0", "2"]


def test_several_topics_are_read_together(spark: SparkSession, new_topic: Callable[..., Topic]) -> None:
    """One read returns the records of several topics, and the column `topic` names the topic of each row."""
    first, second = new_topic(), new_topic(partitions=2)
    first.produce(["a"])
    second.produce(["b"], 1)

    frame = read(spark, first.options(subscribe=f"{first.name},{second.name}"))

    assert {(row.topic, bytes(row.value)) for row in frame.collect()} == {(first.name, b"a"), (second.name, b"b")}


def test_an_empty_topic_has_no_rows(spark: SparkSession, topic: Topic) -> None:
    """A read of an empty topic returns no rows."""
    assert read(spark, topic.options()).count() == 0


def test_ten_megabytes_are_one_record(spark: SparkSession, new_topic: Callable[..., Topic]) -> None:
    """A record that is larger than the fetch limit is read completely (KIP-74)."""
    topic = new_topic(max_message_bytes="12000000")
    value = bytes(range(256)) * 40_000
    topic.produce_records([{"value": value}, {"value": b"small"}], **{"message.max.bytes": 12_000_000})

    rows = read(spark, topic.options()).orderBy("offset").collect()

    assert [bytes(row.value) for row in rows] == [value, b"small"]


def test_many_small_batches_are_all_read(spark: SparkSession, topic: Topic) -> None:
    """Small fetches read all batches of one record each, as a producer without linger time writes them."""
    topic.produce(range(3000), **{"batch.num.messages": 1, "linger.ms": 0})

    frame = read(spark, topic.options(**{"kafka.max.partition.fetch.bytes": "2000"}))

    assert values_of(frame) == sorted(map(str, range(3000)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOfsets": "earliest"}, "unknown option 'startingofsets'"),
        ({"kafka_auto_offset_reset": "earliest"}, "'auto.offset.reset' is not supported"),
        ({"startingOffsets": "latest"}, "can't be latest for batch queries"),
        ({"startingOffsets": '{"other":{"0":1}}'}, "must specify all TopicPartitions"),
    ],
)
def test_wrong_options_are_refused(spark: SparkSession, topic: Topic, options: dict[str, str], message: str) -> None:
    """A wrong option fails the read with klamm's message and without a traceback."""
    with pytest.raises(Exception, match=message) as refused:
        read(spark, topic.options(**options)).collect()
    assert "Traceback" not in str(refused.value)


def test_an_error_of_a_users_function_keeps_its_traceback(spark: SparkSession, topic: Topic) -> None:
    """An error of a user's function has a traceback, even after an error of klamm, which has none."""
    with pytest.raises(Exception, match="unknown option"):
        read(spark, topic.options(startingOfsets="earliest")).collect()

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("of the user's own")

    with pytest.raises(Exception, match="of the user's own") as failed:
        read(spark, topic.options()).mapInArrow(fail, "value binary").collect()
    assert "Traceback" in str(failed.value)


def test_a_schema_of_ones_own_is_refused(spark: SparkSession, topic: Topic) -> None:
    """A schema given by the user is refused, because the columns are fixed, as in Spark's own source."""
    with pytest.raises(Exception, match="fixed schema"):
        spark.read.format("klamm").options(**topic.options()).schema("value string").load().collect()


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, topic: Topic) -> None:
    """The error for a missing topic names the topic. With `failOnDataLoss=false` the topic counts as empty."""
    options = topic.options(subscribe="no-such-topic", **{"fetchOffset.retryIntervalMs": "50"})

    with pytest.raises(Exception, match="no-such-topic: no such topic or partition") as refused:
        read(spark, options).count()
    assert "Traceback" not in str(refused.value)
    assert "lost" not in str(refused.value)
    assert read(spark, {**options, "failOnDataLoss": "false"}).count() == 0


def test_a_broker_that_is_not_there_is_named(spark: SparkSession, topic: Topic) -> None:
    """A read fails after `default.api.timeout.ms` with the address of a broker that does not answer."""
    options = topic.options(kafka_default_api_timeout_ms="500")
    options["kafka.bootstrap.servers"] = "127.0.0.1:1"

    with pytest.raises(Exception, match=r"no connection to the broker at 127\.0\.0\.1:1"):
        read(spark, options).count()


def test_records_that_are_gone_fail_the_read_or_are_skipped(spark: SparkSession, topic: Topic) -> None:
    """Offsets below the log start fail the read. With `failOnDataLoss=false` only the remaining records are read."""
    topic.produce(range(10), 0)
    topic.delete_before(6)
    options = topic.options(startingOffsets=json.dumps({topic.name: {"0": 2, "1": 0, "2": 0}}))

    with pytest.raises(Exception, match=r"Could not read records in range \[2, 10\)"):
        read(spark, options).count()
    assert values_of(read(spark, {**options, "failOnDataLoss": "false"})) == ["6", "7", "8", "9"]


def test_offsets_beyond_the_end_fail_the_read_or_are_skipped(spark: SparkSession, topic: Topic) -> None:
    """A start beyond the log end fails the read. With `failOnDataLoss=false` the read returns no rows."""
    topic.produce(range(10), 0)
    options = topic.options(startingOffsets=json.dumps({topic.name: {"0": 50, "1": 0, "2": 0}}))

    with pytest.raises(Exception, match="offset was changed from 50 to 10"):
        read(spark, options).count()
    assert read(spark, {**options, "failOnDataLoss": "false"}).count() == 0


def test_a_read_commits_to_no_group(spark: SparkSession, topic: Topic) -> None:
    """A batch read commits no offsets, even with a group id: only streams have a position in the topic."""
    topic.produce(range(10))

    read(spark, topic.options(kafka_group_id=f"g-{topic.name}")).count()

    assert topic.committed(f"g-{topic.name}") == [-1001] * 3


def test_only_committed_records_are_read_if_asked_for(spark: SparkSession, topic: Topic) -> None:
    """With read_committed, aborted records and markers are not read, and their offsets do not count as loss."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "transactional.id": topic.name})
    producer.init_transactions(30)
    for number, fate in enumerate([producer.commit_transaction, producer.abort_transaction] * 3):
        producer.begin_transaction()
        for index in range(5):
            producer.produce(topic.name, f"{number}-{index}", partition=0)
        producer.flush()
        fate(30)

    committed = values_of(read(spark, topic.options(kafka_isolation_level="read_committed")))

    assert committed == sorted(f"{number}-{index}" for number in (0, 2, 4) for index in range(5))
    assert read(spark, topic.options()).count() == 30
