"""Runs the code of the page on writing a topic with Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from tests.support.page_code import page_code
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PAGE = "how-to/write-a-topic-with-spark.md"
_PARTITIONS = 5
"""So many that the two hash functions choose different ones for the keys of the page."""


def values(topic: Topic, partitions: int = 1) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for records in topic.records(partitions) for record in records]


def stream(spark: SparkSession, topic: Topic) -> DataFrame:
    """Returns the DataFrame that the page calls `flights`."""
    return spark.readStream.format("klamm").options(**topic.options(startingOffsets="earliest")).load()


def run_query(block: str, flights: DataFrame) -> None:
    """Runs a block until its query has read everything."""
    program: dict[str, Any] = {"flights": flights}
    exec(block, program)
    try:
        program["query"].processAllAvailable()
    finally:
        program["query"].stop()


def test_a_dataframe(spark: SparkSession, new_topic: Callable[..., Topic]) -> None:
    """The rows become records, with a JSON value of several columns, and in the partitions of either hash function."""
    topic, other, like_librdkafka = (new_topic(_PARTITIONS) for _ in range(3))
    batch, as_json, *_, partitioner = page_code(_PAGE, {"localhost:9092": topic.bootstrap_servers})
    program: dict[str, Any] = {}

    exec(batch.replace('"topic", "delays"', f'"topic", "{topic.name}"'), program)

    assert sorted(values(topic, _PARTITIONS)) == [(b"DL", b"3"), (b"UA", b"12")]
    rows = {row.key: json.loads(row.value) for row in eval(as_json, program).collect()}
    assert rows == {"UA": {"carrier": "UA", "minutes": "12"}, "DL": {"carrier": "DL", "minutes": "3"}}
    own = batch.replace('"topic", "delays"', f'"topic", "{other.name}"')
    exec(own.replace(".save()", f"{partitioner}\n    .save()"), program)
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers})
    for key, value in (("UA", "12"), ("DL", "3")):
        producer.produce(like_librdkafka.name, value, key)
    assert producer.flush(60) == 0
    by_partition = [each.records(_PARTITIONS) for each in (topic, other, like_librdkafka)]
    assert by_partition[1] == by_partition[2] != by_partition[0]


def test_a_stream_and_its_switch_to_exactly_once(
    spark: SparkSession, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A query that wrote at least once stops with an error that names an option, and goes on with it, as the page
    says. A query that writes exactly once from the start needs none."""
    source, topic, other = new_topic(), new_topic(), new_topic()
    names = {"localhost:9092": topic.bootstrap_servers, "flights-upper": topic.name}
    names["flights-upper/checkpoint"] = str(tmp_path / "checkpoint")
    _, _, at_least_once, exactly_once, *_ = page_code(_PAGE, names)
    source.produce_records([{"key": "a", "value": "one"}])
    run_query(at_least_once, stream(spark, source))
    assert values(topic) == [(b"a", b"ONE")]

    source.produce_records([{"key": "a", "value": "two"}])
    with pytest.raises(StreamingQueryException) as stopped:
        run_query(exactly_once, stream(spark, source))
    option = re.search(r"klamm\.sink\.first\.batch=([\w-]+/\d+)", str(stopped.value))
    assert option is not None, str(stopped.value)
    assert values(topic) == [(b"a", b"ONE")]
    start = "    .start()"
    run_query(
        exactly_once.replace(start, f'    .option("klamm.sink.first.batch", "{option[1]}")\n{start}'),
        stream(spark, source),
    )
    assert values(topic) == [(b"a", b"ONE"), (b"a", b"TWO")]

    names |= {"flights-upper": other.name, "flights-upper/checkpoint": str(tmp_path / "another")}
    run_query(page_code(_PAGE, names)[3], stream(spark, source))
    assert values(other) == [(b"a", b"ONE"), (b"a", b"TWO")]


def test_an_aggregation_in_the_mode_update(
    spark: SparkSession, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """Each micro-batch writes the counts that changed."""
    source, counts = new_topic(), new_topic()
    names = {"localhost:9092": counts.bootstrap_servers, "counts": counts.name}
    names["counts/checkpoint"] = str(tmp_path / "checkpoint")
    *_, update, _ = page_code(_PAGE, names)
    source.produce_records([{"key": key, "value": "1"} for key in "aab"])
    run_query(update, stream(spark, source))
    source.produce_records([{"key": "b", "value": "1"}])
    run_query(update, stream(spark, source))

    found = values(counts)
    assert sorted(found[:2]) == [(b"a", b"2"), (b"b", b"1")]
    assert found[2:] == [(b"b", b"2")]
