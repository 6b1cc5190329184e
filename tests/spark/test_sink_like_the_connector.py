"""Tests that the same rows and options write the same records, or are refused, as with Spark's own Kafka connector."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.spark_topics import Record, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The first test starts Spark and may have to find jars.
pytestmark = pytest.mark.timeout(300)

# For refusals: by default, Java's producer waits a minute for a topic or a partition that does not exist. Other writes
# have the default times: Spark repeats a task that fails, and its records would be there twice.
HASTE = {"kafka.max.block.ms": "2000", "kafka.delivery.timeout.ms": "4000", "kafka.request.timeout.ms": "3000"}
HEADER = "named_struct('key', {}, 'value', cast({} as binary))"
NO_BYTES = "cast(null as binary)"


def write(frame: DataFrame, source: str, into: Topic, **options: str) -> None:
    """Writes all rows in one task, so that the records of a partition have a fixed order."""
    servers = {"kafka.bootstrap.servers": into.bootstrap_servers}
    frame.coalesce(1).write.format(source).mode("append").options(**servers, **options).save()


# The columns of 300 rows, and the options of the write.
KEYED: dict[str, tuple[list[str], dict[str, str]]] = {
    "text keys": (["concat('key ', id) key", "string(id) value"], {}),
    "keys of all lengths": (["binary(left(repeat('äbc', 30), int(id % 40))) key", "string(id) value"], {}),
    "bytes": (["unhex(hex(id * 7919)) key", "unhex(hex(id)) value"], {}),
    "no values": (["string(id) key", "cast(null as string) value"], {}),
    "partitions": (["int(id % 3) partition", "string(id) value"], {}),
    "partitions for some": (["string(id) key", "if(id % 2 = 0, int(id % 3), null) partition", "string(id) value"], {}),
    "headers": (
        [
            "string(id) key",
            "string(id) value",
            f"case id % 4 when 0 then null when 1 then array() "
            f"when 2 then array({HEADER.format('string(id)', 'string(id)')}) "
            f"else array({HEADER.format(repr('same'), 'null')}, {HEADER.format(repr('same'), repr('ä'))}) end headers",
        ],
        {},
    ),
    "other columns": (["id offset", "'x' Key", "string(id) key", "string(id) value", "now() timestamp"], {}),
    "gzip": (["string(id) key", "repeat('x', 100) value"], {"kafka.compression.type": "gzip"}),
    "snappy": (["string(id) key", "repeat('x', 100) value"], {"kafka.compression.type": "snappy"}),
    "lz4": (["string(id) key", "repeat('x', 100) value"], {"kafka.compression.type": "lz4"}),
    "zstd": (
        ["string(id) key", "repeat('x', 100) value"],
        {"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "7"},
    ),
    "small batches": (["string(id) key", "repeat('x', 100) value"], {"kafka.batch.size": "500"}),
    "the leader's acknowledgement": (["string(id) key", "string(id) value"], {"kafka.acks": "1"}),
    "no idempotence": (["string(id) key", "string(id) value"], {"kafka.enable.idempotence": "false"}),
    "headers are written without being asked for": (
        ["string(id) key", "string(id) value", f"array({HEADER.format(repr('h'), repr('v'))}) headers"],
        {"includeHeaders": "false"},
    ),
}


@pytest.mark.parametrize("case", KEYED)
def test_the_same_records(spark: SparkSession, connector: str, new_topic: Callable[..., Topic], case: str) -> None:
    """klamm and the connector write the same records to the same partitions in the same order."""
    columns, options = KEYED[case]
    frame = spark.range(300).selectExpr(*columns)
    theirs, ours = new_topic(partitions=3), new_topic(partitions=3)
    # The leader of a new partition may refuse a batch, which a producer without idempotence sends again behind others.
    for topic in (theirs, ours):
        assert topic.ends() == [0, 0, 0]

    write(frame, connector, theirs, topic=theirs.name, **options)
    write(frame, "klamm", ours, topic=ours.name, **options)

    records = ours.records()
    assert records == theirs.records()
    assert sum(map(len, records)) == 300


@pytest.mark.parametrize("options", [{}, {"kafka.partitioner.ignore.keys": "true"}], ids=["no keys", "ignored keys"])
def test_the_same_records_wherever_they_land(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], options: dict[str, str]
) -> None:
    """Both sinks write the same records to random partitions if records have no key or keys are ignored."""
    frame = spark.range(300).selectExpr("concat(id, repeat('x', 20)) value", *(["string(id) key"] if options else []))
    topics = {source: new_topic(partitions=3) for source in (connector, "klamm")}

    for source, topic in topics.items():
        write(frame, source, topic, topic=topic.name, **options, **{"kafka.batch.size": "400"})

    theirs, ours = topics.values()
    assert sorted(itertools.chain(*ours.records())) == sorted(itertools.chain(*theirs.records()))
    assert all(ours.records())


def test_a_column_of_topics(spark: SparkSession, connector: str, new_topic: Callable[..., Topic]) -> None:
    """Each row goes to the topic in its column `topic`, unless the option `topic` names one topic for all rows."""
    a, b = new_topic(partitions=3), new_topic(partitions=3)
    frame = spark.range(100).selectExpr(
        f"if(id % 3 = 0, '{a.name}', '{b.name}') topic", "string(id) key", "string(id) value"
    )

    write(frame, connector, a)
    theirs = a.records(), b.records()
    write(frame, "klamm", a)
    both = a.records(), b.records()

    for partition in range(3):
        for before, after in zip(theirs, both, strict=True):
            assert after[partition] == before[partition] * 2
    c, d = new_topic(partitions=3), new_topic(partitions=3)
    write(frame, connector, c, topic=f" {c.name} ")
    write(frame, "klamm", d, topic=f" {d.name} ")
    assert d.records() == c.records()


def test_the_same_streams(spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """klamm and the connector write the same records from streams in append mode and in complete mode."""
    source = new_topic(partitions=1)
    written: dict[str, list[list[list[Record]]]] = {connector: [], "klamm": []}
    source.produce(f"{index % 4}" for index in range(40))
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    frames = {
        "append": frame.selectExpr("value key", "string(offset) value").coalesce(1),
        "complete": frame.groupBy("value").count().selectExpr("value key", "string(count) value").coalesce(1),
    }
    for name, results in written.items():
        for mode, rows in frames.items():
            topic = new_topic(partitions=3)
            rows.writeStream.format(name).outputMode(mode).options(
                **{"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name},
                checkpointLocation=str(tmp_path / name / mode),
            ).trigger(availableNow=True).start().awaitTermination()
            results.append([sorted(records) for records in topic.records()])

    assert written["klamm"] == written[connector]
    assert [sum(map(len, records)) for records in written["klamm"]] == [40, 4]


ROW = ["string(id) value"]
# Columns, options, and the text that both errors contain; if the errors differ, the connector's text and klamm's text.
REFUSALS: list[tuple[list[str], dict[str, Any], str | tuple[str, str]]] = [
    (ROW, {"topic": "left out"}, "topic option required when no 'topic' attribute is present. Use the topic option"),
    (["'a' value2"], {}, "Required attribute 'value' not found"),
    (["'a' VALUE"], {}, "Required attribute 'value' not found"),
    (["1 value"], {}, "value attribute unsupported type int. value must be a(n) string or binary"),
    ([*ROW, "id key"], {}, "key attribute unsupported type bigint. key must be a(n) string or binary"),
    ([*ROW, "1 topic"], {"topic": "left out"}, "topic attribute unsupported type int. topic must be a(n) string"),
    ([*ROW, "id partition"], {}, "partition attribute unsupported type bigint. partition must be a(n) int"),
    (
        [*ROW, "map('a', binary('b')) headers"],
        {},
        "headers attribute unsupported type map<string,binary>. headers must be a(n) "
        "array<struct<key:string,value:binary>>",
    ),
    (
        ROW,
        {"kafka.key.serializer": "x.Y"},
        "Kafka option 'key.serializer' is not supported as keys are serialized with",
    ),
    (
        ROW,
        {"kafka.value.serializer": "x.Y"},
        "Kafka option 'value.serializer' is not supported as value are serialized",
    ),
    # Both sinks refuse these writes, with different messages.
    (
        ROW,
        {"kafka.bootstrap.servers": "left out"},
        ("bootstrap.servers", "'kafka.bootstrap.servers' must be specified"),
    ),
    ([*ROW, "string(null) topic"], {"topic": "left out"}, ("null topic", "null topic")),
    ([*ROW, "-1 partition"], {}, ("Invalid partition: -1", "partition -1")),
    ([*ROW, "3 partition"], {}, ("Partition 3 of topic <topic>", "partition 3")),
    ([*ROW, f"array({HEADER.format('string(null)', repr('v'))}) headers"], {}, ("is null", "a header without a key")),
    (ROW, {"topic": " "}, ("InvalidTopicException", "the option 'topic' is empty")),
    (ROW, {"topic": "a b"}, ("InvalidTopicException: a b", "INVALID_TOPIC_EXCEPTION")),
    (ROW, {"kafka.acks": "2"}, ("Invalid value 2 for configuration acks", "kafka.acks=2: it is all, 1 or 0")),
    (
        ROW,
        {"kafka.transactional.id": "t"},
        # The message depends on whether an earlier attempt of the task has used the same producer.
        ("TransactionManager.maybeAddPartition", "Kafka option 'transactional.id' is not supported"),
    ),
    (ROW, {"kafka.interceptor.classes": "x.Y"}, ("Failed to construct", "'interceptor.classes' is not supported")),
    (["repeat('a', 2000000) value"], {}, ("RecordTooLargeException", "max.request.size")),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=[json.dumps([*rest])[:70] for *rest, _ in REFUSALS])
def test_the_same_refusals(
    spark: SparkSession,
    connector: str,
    topic: Topic,
    refusal: tuple[list[str], dict[str, Any], str | tuple[str, str]],
) -> None:
    """klamm and the connector refuse the same batch writes; klamm's errors have no traceback."""
    columns, options, essence = refusal
    essences = (essence, essence) if isinstance(essence, str) else essence
    frame = spark.range(2).selectExpr(*columns)
    merged = {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name, **HASTE, **options}
    chosen = {key: text for key, text in merged.items() if text != "left out"}
    for source, words in zip((connector, "klamm"), essences, strict=True):
        with pytest.raises(Exception, match=re.escape(words.replace("<topic>", topic.name))) as refused:
            frame.write.format(source).mode("append").options(**chosen).save()
        assert source == connector or "Traceback" not in str(refused.value)
    assert topic.records() == [[], [], []]


# Spark's sink ignores this option in a batch write.
REFUSALS_OF_STREAMS = [
    *REFUSALS,
    (ROW, {"includeHeaders": "maybe"}, ("maybe is not a boolean", "includeHeaders=maybe")),
]


@pytest.mark.parametrize(
    "refusal", REFUSALS_OF_STREAMS, ids=[json.dumps([*rest])[:70] for *rest, _ in REFUSALS_OF_STREAMS]
)
def test_the_same_refusals_of_streams(
    spark: SparkSession,
    connector: str,
    new_topic: Callable[..., Topic],
    tmp_path: Path,
    refusal: tuple[list[str], dict[str, Any], str | tuple[str, str]],
) -> None:
    """klamm and the connector refuse the same streaming queries; klamm's errors have no traceback."""
    columns, options, essence = refusal
    essences = (essence, essence) if isinstance(essence, str) else essence
    source, topic = new_topic(partitions=1), new_topic(partitions=3)
    source.produce(["a", "b"])
    records = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest")).load()
    frame = records.selectExpr("offset id").selectExpr(*columns)
    merged = {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name, **HASTE, **options}
    chosen = {key: text for key, text in merged.items() if text != "left out"}
    for name, words in zip((connector, "klamm"), essences, strict=True):
        writer = frame.writeStream.format(name).options(**chosen, checkpointLocation=str(tmp_path / name))
        with pytest.raises(Exception, match=re.escape(words.replace("<topic>", topic.name))) as refused:
            writer.trigger(availableNow=True).start().awaitTermination()
        assert name == connector or "Traceback" not in str(refused.value)
    assert topic.records() == [[], [], []]


@pytest.mark.parametrize(
    "refusal",
    [
        ("append", "mode: append. This output mode is not supported for streaming aggregations without watermark"),
        ("complete", "mode: complete. This output mode is not supported for no streaming aggregations"),
        ("other", "mode: other. Accepted output modes are"),
    ],
    ids=lambda refusal: refusal[0],
)
def test_the_same_output_modes_are_refused(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path, refusal: tuple[str, str]
) -> None:
    """Spark refuses the same output modes for both sinks: `append` for a table that changes its rows, `complete` for
    one without an aggregation, and unknown ones."""
    mode, message = refusal
    source, topic = new_topic(partitions=1), new_topic(partitions=3)
    records = spark.readStream.format("klamm").options(**source.options()).load()
    frame = records.groupBy("value").count() if mode == "append" else records
    for name in (connector, "klamm"):
        writer = frame.select("value").writeStream.format(name)
        options = {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name}
        writer = writer.options(**options, checkpointLocation=str(tmp_path / name))
        with pytest.raises(Exception, match=message):
            writer.outputMode(mode).trigger(availableNow=True).start().awaitTermination()
    assert topic.records() == [[], [], []]


@pytest.mark.parametrize(("mode", "ours"), [("overwrite", "Save mode overwrite not allowed for Kafka"), ("ignore", "")])
def test_the_same_save_modes_are_refused(
    spark: SparkSession, connector: str, topic: Topic, mode: str, ours: str
) -> None:
    """klamm and the connector refuse the save modes `overwrite` and `ignore`, because a write only adds records."""
    servers = {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name}
    for source, words in ((connector, "not allowed for Kafka"), ("klamm", ours or "UNSUPPORTED_DATA_SOURCE_SAVE_MODE")):
        with pytest.raises(Exception, match=words):
            spark.range(2).selectExpr(*ROW).write.format(source).mode(mode).options(**servers).save()
    assert topic.records() == [[], [], []]
