"""Tests that the same options give the same rows, or the same refusal, as with Spark's own Kafka connector."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.support.spark_queries import Runs
from tests.support.spark_topics import Topic, create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The first test starts Spark and may have to find jars.
pytestmark = pytest.mark.timeout(300)

TIME = 1_700_000_000_000
# Without these options, the connector's retries would take seconds for each refusal.
HASTE = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "0"}


@pytest.fixture(scope="module")
def topics() -> dict[str, Topic]:
    """Returns a mapping that the first test fills with topics; the tests only read the topics."""
    return {}


@pytest.fixture
def filled(topics: dict[str, Topic], new_topic: Callable[..., Topic]) -> dict[str, Topic]:
    """Returns topics `a` (three partitions, one of them empty) and `b` (transactions, a name similar to `a`'s)."""
    if not topics:
        a, b = new_topic(partitions=3), new_topic()
        for partition in range(2):
            a.produce_records(
                [
                    {
                        "key": None if index % 3 == 0 else f"k{index}",
                        "value": None if index % 7 == 6 else f"{partition}-{index}",
                        "headers": [("h", b"1"), ("n", None)] if index % 2 else None,
                        "timestamp": TIME + 1_000 * index + partition,
                    }
                    for index in range(20 + 20 * partition)
                ],
                partition,
            )
        _in_transactions(b)
        topics.update(a=a, b=b)
    return topics


def _in_transactions(topic: Topic) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "transactional.id": topic.name})
    producer.init_transactions(30)
    for number, finish in enumerate(
        [producer.commit_transaction, producer.abort_transaction, producer.commit_transaction]
    ):
        producer.begin_transaction()
        for index in range(4):
            producer.produce(topic.name, f"{number}-{index}", partition=0, timestamp=TIME + index)
        producer.flush()
        finish(30)


def named(options: dict[str, Any], topics: dict[str, Topic]) -> dict[str, str]:
    """Returns the options with the topics' real names: `<a>` stands for the name of topic `a`."""
    merged = {"kafka.bootstrap.servers": topics["a"].bootstrap_servers, **HASTE, **options}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in merged.items()}
    for letter, topic in topics.items():
        texts = {key: text.replace(f"<{letter}>", topic.name) for key, text in texts.items()}
    return {key: text for key, text in texts.items() if text != "left out"}


ROWS: dict[str, dict[str, Any]] = {
    "everything, with headers": {"subscribe": "<a>,<b>", "includeHeaders": "true"},
    "assigned partitions": {"assign": {"<a>": [1], "<b>": [0]}},
    "a pattern": {"subscribePattern": "^<a>$|-no-such-topic"},
    "a pattern that nothing fits": {"subscribePattern": "no-such-topic-.*"},
    "offsets": {
        "subscribe": "<a>",
        "startingOffsets": {"<a>": {"0": 3, "1": -2, "2": -2}},
        "endingOffsets": {"<a>": {"0": 5, "1": -1, "2": -1}},
    },
    "one time": {
        "subscribe": "<a>",
        "startingTimestamp": str(TIME + 3_000),
        "endingTimestamp": str(TIME + 7_000),
        "startingOffsetsByTimestampStrategy": "latest",
        "startingOffsets": "earliest",
    },
    "times": {
        "assign": {"<a>": [0, 1]},
        "startingOffsetsByTimestamp": {"<a>": {"0": TIME + 18_500, "1": TIME + 18_500}},
        "endingOffsetsByTimestamp": {"<a>": {"0": TIME + 99_000, "1": TIME + 30_000}},
    },
    "a start in time, an end in offsets": {
        "assign": {"<a>": [0]},
        "startingTimestamp": str(TIME + 10_000),
        "endingOffsets": {"<a>": {"0": 15}},
    },
    "more tasks": {"subscribe": "<a>", "minPartitions": "7"},
    "small tasks": {
        "subscribe": "<a>",
        "maxRecordsPerPartition": "6",
        # With "earliest" and "latest" the connector would not know the sizes, and would not divide the ranges.
        "startingOffsets": {"<a>": {"0": 0, "1": 0, "2": 0}},
        "endingOffsets": {"<a>": {"0": 20, "1": 40, "2": 0}},
    },
    "small tasks, and more": {"subscribe": "<a>", "maxRecordsPerPartition": "30", "minPartitions": "5"},
    "committed records": {"subscribe": "<b>", "kafka.isolation.level": "read_committed"},
    "uncommitted records, and limits of triggers": {
        "subscribe": "<b>",
        "kafka.isolation.level": "read_uncommitted",
        "maxOffsetsPerTrigger": "1",
        "minOffsetsPerTrigger": "1",
        "maxTriggerDelay": "1h",
    },
}


@pytest.mark.parametrize("case", ROWS)
def test_the_same_rows(spark: SparkSession, connector: str, filled: dict[str, Topic], case: str) -> None:
    """klamm and the connector return the same columns and rows, and divide the rows among tasks in the same way."""
    options = named(ROWS[case], filled)
    theirs = spark.read.format(connector).options(**options).load()
    ours = spark.read.format("klamm").options(**options).load()

    assert ours.schema.simpleString() == theirs.schema.simpleString()
    assert by_task(ours) == by_task(theirs)


def by_task(frame: DataFrame) -> list[list[str]]:
    """Returns the rows of each task that has rows."""
    tasks: dict[int, list[str]] = {}
    for *row, task in frame.selectExpr("*", "spark_partition_id()").collect():
        tasks.setdefault(task, []).append(repr(row))
    return sorted(map(sorted, tasks.values()))


# Options, and the text that both errors contain; if the errors differ, the connector's text and klamm's text.
REFUSALS: list[tuple[dict[str, Any], str | tuple[str, str]]] = [
    ({}, "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign"),
    ({"subscribe": "<a>", "assign": {"<a>": [0]}}, "Only one of the following options can be specified"),
    ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
    ({"subscribePattern": " "}, "Pattern to subscribe is empty as specified value for option 'subscribePattern'"),
    ({"assign": "a:0"}, "No topicpartitions to assign as specified value for option 'assign' is 'a:0'"),
    ({"assign": '{"a":0}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a":0}'),
    ({"subscribe": "<a>", "kafka.bootstrap.servers": "left out"}, "Option 'kafka.bootstrap.servers' must be specified"),
    ({"subscribe": "<a>", "startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
    ({"subscribe": "<b>", "startingOffsets": {"<b>": {"0": -1}}}, "can't be latest for batch queries on Kafka"),
    ({"subscribe": "<a>", "endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
    ({"subscribe": "<b>", "endingOffsets": {"<b>": {"0": -2}}}, "can't be earliest for batch queries on Kafka"),
    ({"subscribe": "<a>", "startingOffsets": "first"}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'),
    ({"subscribe": "<a>", "startingOffsets": {"<a>": {"0": "x"}}}, 'Expected e.g. {"topicA":{"0":23,"1":-1}'),
    ({"subscribe": "<a>", "startingOffsets": {"<a>": {"0": 1}}}, "don't match what are assigned"),
    ({"subscribe": "<a>", "startingOffsetsByTimestamp": {"<a>": {"0": 1}}}, "don't match what are assigned"),
    ({"subscribe": "<a>", "startingOffsetsByTimestamp": "9"}, 'Expected e.g. {"topicA": {"0": 123456789'),
    ({"subscribe": "<a>", "startingTimestamp": "9h"}, "Expected a single long value, got 9h"),
    ({"subscribe": "<a>", "startingTimestamp": str(TIME)}, f"and timestamp {TIME}."),
    (
        {"subscribe": "<b>", "startingOffsets": {"<b>": {"0": 5}}, "endingOffsets": {"<b>": {"0": 4}}},
        "The specified start offset 5 is greater than the end offset 4 for topic <b> partition 0.",
    ),
    (
        {"subscribe": "<b>", "startingOffsets": {"<b>": {"0": 5}}, "endingOffsets": {"<b>": {"0": 5, "1": 5}}},
        "The specified start offset and end offset should have the same topic-partitions.",
    ),
    (
        {"subscribe": "<b>", "startingOffsets": {"<b>": {"0": 14}}, "endingTimestamp": str(TIME)},
        "The resolved start offset 14 is greater than the resolved end offset 0 for topic <b> partition 0.",
    ),
    ({"subscribe": "<a>", "minPartitions": "0"}, "minPartitions must be positive"),
    ({"subscribe": "<a>", "maxRecordsPerPartition": "0"}, ("must be positive", "must be positive")),
    (
        {"subscribe": "<a>", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        "The value of minOffsetPerTrigger(5) is higher than the maxOffsetsPerTrigger(4).",
    ),
    ({"subscribe": "<a>", "kafka.auto.offset.reset": "earliest"}, "Kafka option 'auto.offset.reset' is not supported."),
    ({"subscribe": "<a>", "kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
    ({"subscribe": "<a>", "kafka.interceptor.classes": "x.Y"}, "Kafka option 'interceptor.classes' is not supported"),
    (
        {"subscribe": "<a>", "kafka.key.deserializer": "x.Y"},
        "'key.deserializer' is not supported as keys are deserialized",
    ),
    ({"subscribe": "<a>", "kafka.value.deserializer": "x.Y"}, "'value.deserializer' is not supported as values are"),
    # Both refuse the option, but the text of Spark's error comes from a Java class.
    (
        {"subscribe": "<a>", "startingOffsetsByTimestampStrategy": "first"},
        ("No value found for 'FIRST'", "startingOffsetsByTimestampStrategy=first: it is error or latest"),
    ),
    (
        {"subscribe": "<a>", "failOnDataLoss": "maybe"},
        ('For input string: "maybe"', "failOnDataLoss=maybe: it is true"),
    ),
    ({"subscribe": "<a>", "minPartitions": "few"}, ('For input string: "few"', "minPartitions=few: it is a positive")),
    # The connector's error has the broker's text, and klamm's error names the missing topic.
    (
        {"subscribe": "no-such-topic"},
        ("This server does not host this topic-partition", "no-such-topic: no such topic"),
    ),
]


@pytest.mark.parametrize(("options", "essence"), REFUSALS, ids=[json.dumps(options)[:60] for options, _ in REFUSALS])
def test_the_same_refusals(
    spark: SparkSession,
    connector: str,
    filled: dict[str, Topic],
    options: dict[str, Any],
    essence: str | tuple[str, str],
) -> None:
    """klamm and the connector refuse the same options of a batch read."""
    essences = (essence, essence) if isinstance(essence, str) else essence
    for source, words in zip((connector, "klamm"), essences, strict=True):
        expected = words.replace("<a>", filled["a"].name).replace("<b>", filled["b"].name)
        # The text of an error can be split over several lines.
        with pytest.raises(Exception, match=r"\s+".join(map(re.escape, expected.split()))):
            spark.read.format(source).options(**named(options, filled)).load().collect()


def test_the_same_loss(spark: SparkSession, connector: str, topic: Topic) -> None:
    """Deleted records fail a read, or are skipped with `failOnDataLoss=false`, in klamm and in the connector."""
    topic.produce(range(10), 0)
    topic.delete_before(6)
    asked = {topic.name: {"0": 2, "1": 0, "2": 0}}
    options = topic.options(startingOffsets=json.dumps(asked), failOnDataLoss="false")

    rows = [by_task(spark.read.format(source).options(**options).load()) for source in (connector, "klamm")]
    assert rows[0] == rows[1]
    assert len(rows[0][0]) == 4
    for source in (connector, "klamm"):
        with pytest.raises(Exception, match=r"(?s)Could not read records in .*\[2, 10\) for .*partition"):
            spark.read.format(source).options(**{**options, "failOnDataLoss": "true"}).load().collect()


STARTS: dict[str, dict[str, Any]] = {
    "where the log ends": {"subscribe": "<a>"},
    "some where the log ends": {"subscribe": "<a>", "startingOffsets": {"<a>": {"0": 7, "1": -2, "2": -1}}},
    "a time": {
        "subscribe": "<a>",
        "startingTimestamp": str(TIME + 18_500),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "times": {
        "subscribe": "<a>",
        "startingOffsetsByTimestamp": {"<a>": {"0": TIME + 19_001, "1": TIME + 5_000, "2": TIME}},
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "a time before times before offsets": {
        "assign": {"<a>": [0, 1]},
        "startingTimestamp": str(TIME + 10_000),
        "startingOffsetsByTimestamp": {"<a>": {"0": TIME, "1": TIME}},
        "startingOffsets": "latest",
    },
    "times before offsets": {
        "assign": {"<a>": [0, 1]},
        "startingOffsetsByTimestamp": {"<a>": {"0": TIME + 4_000, "1": TIME + 12_000}},
        "startingOffsets": "latest",
    },
    "a pattern": {"subscribePattern": "<a>", "startingOffsets": "earliest"},
}


@pytest.mark.parametrize("case", STARTS)
def test_the_same_starts_of_streams(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path, case: str
) -> None:
    """Both streams have the same start, and read partitions and topics created between two runs from their start."""
    topic = new_topic(partitions=3)
    for partition in range(2):
        topic.produce_records(
            [{"value": f"{partition}-{index}", "timestamp": TIME + 1_000 * index} for index in range(20)], partition
        )
    options = named(STARTS[case], {"a": topic})
    both = [Runs(spark, topic, tmp_path / source, source) for source in (connector, "klamm")]

    first_theirs, first_ours = (runs.to_the_end(**options).values for runs in both)
    for partition in range(3):
        topic.produce([f"{partition}-new"], partition)
    topic.grow(4)
    topic.produce(["3-new"], 3)
    create_topic(topic.admin, topic.bootstrap_servers, f"{topic.name}-later", 1, {}).produce(["later"])
    then_theirs, then_ours = (runs.to_the_end(**options).values for runs in both)

    assert first_ours == first_theirs
    assert then_ours == then_theirs
    assert then_ours[-1] == ("later" if "subscribePattern" in options else "1-new" if "assign" in options else "3-new")


@pytest.mark.parametrize(
    "refusal",
    [
        ({"startingTimestamp": str(TIME)}, f"-0 and timestamp {TIME}."),
        (
            {"startingOffsetsByTimestamp": {"<a>": {"0": TIME, "1": TIME, "2": TIME}}},
            f"-0 and timestamp {TIME}.",
        ),
        ({"startingOffsetsByTimestamp": {"<a>": {"0": 1}}}, "don't match what are assigned"),
        ({"startingOffsets": {"<a>": {"0": 1}}}, "you must specify all TopicPartitions"),
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingOffsetsByTimestamp": "{}"}, "ending timestamp not valid in streaming queries"),
    ],
    ids=["no such time", "no such time in one", "a time is missing", "an offset is missing", "an end", "ends in time"],
)
def test_the_same_refusals_of_streams(
    spark: SparkSession, connector: str, topic: Topic, tmp_path: Path, refusal: tuple[dict[str, Any], str]
) -> None:
    """klamm and the connector refuse a start of a stream that does not exist, and any end: a stream has no end."""
    options, essence = refusal
    topic.produce_records([{"value": b"v", "timestamp": TIME - 1}], 0)
    for partition in (1, 2):  # the connector names any partition without a record at or after the time
        topic.produce(["v"], partition)
    for source in (connector, "klamm"):
        runs = Runs(spark, topic, tmp_path / source, source)
        with pytest.raises(Exception, match=re.escape(essence)):
            runs.to_the_end(**named({"subscribe": "<a>", **options}, {"a": topic}))


def test_the_same_micro_batches(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """Both sources cut micro-batches at the same offsets, in proportion to the records of each partition."""
    topic = new_topic(partitions=3)
    for partition, count in enumerate((50, 23, 1)):
        topic.produce((f"{partition}-{index}" for index in range(count)), partition)
    starting = json.dumps({topic.name: {"0": 5, "1": -2, "2": -1}})
    options = {"startingOffsets": starting, "maxOffsetsPerTrigger": 30, "minPartitions": 4}

    theirs = Runs(spark, topic, tmp_path / "theirs", connector).to_the_end(**options)
    ours = Runs(spark, topic, tmp_path / "ours").to_the_end(**options)

    assert ours.by_id == theirs.by_id
    assert len(ours.by_id) > 1


@pytest.mark.parametrize(
    "limits",
    [
        {"minOffsetsPerTrigger": 10},
        {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 12},
        {"minOffsetsPerTrigger": 1_000, "maxTriggerDelay": "0s"},
    ],
    ids=["a minimum", "a minimum and a maximum", "no patience"],
)
def test_the_same_waits(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path, limits: dict[str, Any]
) -> None:
    """A micro-batch with too few records waits for more, at most `maxTriggerDelay`; the first one does not wait."""
    by_source = []
    for source in (connector, "klamm"):
        topic = new_topic(partitions=1)
        topic.produce(range(5), 0)
        with Runs(spark, topic, tmp_path / source, source).running(startingOffsets="earliest", **limits) as running:
            query, sink = running
            seen = []
            for new in (range(5, 9), range(9, 20), range(20, 21), range(21, 40)):
                query.processAllAvailable()
                seen.append(dict(sink.by_id))
                topic.produce(new, 0)
            query.processAllAvailable()
            seen.append(dict(sink.by_id))
        by_source.append(seen)

    assert by_source[0] == by_source[1]
    assert len(by_source[0][-1]) > 1


def test_a_query_can_change_over_and_go_on(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A query can change over in both directions, and continues at the offsets in the checkpoint.

    Each source repeats a micro-batch that the other source did not finish.
    """
    topic = new_topic(partitions=12)  # with more than ten, the two sources could write partitions in different orders
    theirs, ours = (Runs(spark, topic, tmp_path, source) for source in (connector, "klamm"))
    unfinished: list[str] = []
    for turn, (runs, is_interrupted) in enumerate([(theirs, False), (ours, True), (theirs, True), (ours, False)]):
        for partition in range(12):
            topic.produce([f"{turn}-{partition}"], partition)
        new = sorted(f"{turn}-{partition}" for partition in range(12))

        sink = runs.to_the_end(startingOffsets="earliest")

        assert sink.values == sorted(unfinished + new)
        if unfinished:
            assert sink.by_id[min(sink.by_id)] == unfinished
        unfinished = new if is_interrupted else []
        if is_interrupted:
            runs.forget_last_commit()


def test_a_query_can_change_over_in_its_first_micro_batch(
    spark: SparkSession, connector: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A query can change over in its first micro-batch: both sources keep its start in the same checkpoint file."""
    for first, second in ((connector, "klamm"), ("klamm", connector)):
        topic = new_topic(partitions=2)
        checkpoint = tmp_path / first
        topic.produce(range(10), 0)
        starting = json.dumps({topic.name: {"0": 3, "1": -1}})
        assert len(Runs(spark, topic, checkpoint, first).to_the_end(startingOffsets=starting).values) == 7
        Runs(spark, topic, checkpoint).forget_last_commit()

        again = Runs(spark, topic, checkpoint, second).to_the_end(startingOffsets="latest")

        assert again.values == sorted(map(str, range(3, 10)))
