"""Tests reads of a compacted log: removed records do not count as loss, at any start or end of a read or a task."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.kafka_broker import ApacheKafka
from tests.support.spark_queries import Runs
from tests.support.spark_topics import Topic, create_topic

from klamm.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
LAST_OF_EACH_KEY = sorted(str(number) for number in range(390, 401))


def values_in(topic: Topic) -> list[str]:
    """Returns the sorted values that librdkafka reads from partition 0."""
    settings = {"bootstrap.servers": topic.bootstrap_servers, "group.id": "none", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    values: list[str] = []
    try:
        while True:
            message = consumer.poll(10)
            assert message is not None
            if message.error() is not None:
                return sorted(values)
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value.decode())
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def cleaned(is_apache_kafka: bool) -> Iterator[Topic]:
    """Creates a compacted topic: of 400 records with ten keys the last ten remain, and one later record."""
    config = {"log.cleaner.backoff.ms": "50"}
    with ApacheKafka(config) if is_apache_kafka else Broker(config=config) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topic = create_topic(admin, broker.bootstrap_servers, "cleaned", 1, COMPACTED)
        for first in range(0, 400, 40):
            topic.produce_records(
                [{"key": str(number % 10), "value": str(number)} for number in range(first, first + 40)], 0
            )
        topic.produce_records([{"key": "behind", "value": "400"}], 0)
        deadline = time.monotonic() + 120
        while values_in(topic) != LAST_OF_EACH_KEY:
            assert time.monotonic() < deadline, "the log was not cleaned"
            time.sleep(0.1)
        yield topic


def read(spark: SparkSession, topic: Topic, **more: str) -> list[str]:
    frame = spark.read.format("klamm").options(**topic.options(**more)).load()
    return sorted(row[0] for row in frame.selectExpr("string(value)").collect())


def test_a_batch_brings_what_is_left(spark: SparkSession, cleaned: Topic) -> None:
    """A batch read returns the remaining records, with one task and with many tasks, most of which find no records."""
    assert read(spark, cleaned) == LAST_OF_EACH_KEY
    assert read(spark, cleaned, minPartitions="16") == LAST_OF_EACH_KEY


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [(5, 200, []), (200, 395, ["390", "391", "392", "393", "394"]), (399, 401, ["399", "400"])],
)
def test_offsets_that_are_gone_are_no_loss(
    spark: SparkSession, cleaned: Topic, start: int, end: int, left: list[str]
) -> None:
    """Removed offsets do not fail a read, although `failOnDataLoss` is on."""
    limits = {
        "startingOffsets": json.dumps({cleaned.name: {"0": start}}),
        "endingOffsets": json.dumps({cleaned.name: {"0": end}}),
    }

    assert read(spark, cleaned, **limits) == left


def test_micro_batches_may_be_empty(spark: SparkSession, cleaned: Topic, tmp_path: Path) -> None:
    """Micro-batches advance by offsets, so a stream reaches the end even if some micro-batches are empty."""
    runs = Runs(spark, cleaned, tmp_path / "checkpoint")

    batches = runs.to_the_end(startingOffsets="earliest", maxOffsetsPerTrigger=100)

    assert batches.values == LAST_OF_EACH_KEY
    assert len(batches.by_id) > 3
