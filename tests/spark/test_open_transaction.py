"""Tests a task with a range that ends in an open transaction. Needs no Spark session."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from tests.support.spark_topics import Topic

from klamm.client.errors import GaveUp
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.offsets import OffsetRange
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.tasks.partition_reader import read_range

_PATIENCE_S = 60
_LONG = {"transaction.timeout.ms": 600_000}
"""The transaction stays open until the test ends it, also on a busy machine."""


@pytest.fixture
def transaction(topic: Topic) -> Producer:
    """Writes three records without a transaction, then two in an open transaction; returns the second producer."""
    topic.produce(range(3), 0)
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "transactional.id": topic.name, **_LONG})
    producer.init_transactions(_PATIENCE_S)
    producer.begin_transaction()
    for value in ("3", "4"):
        producer.produce(topic.name, value, partition=0)
    assert producer.flush(_PATIENCE_S) == 0
    return producer


@pytest.mark.parametrize("fail", [True, False], ids=["failOnDataLoss", "not failOnDataLoss"])
def test_records_of_an_open_transaction_are_not_lost(topic: Topic, transaction: Producer, fail: bool) -> None:
    """A task gives up at an open transaction after `kafkaConsumer.pollTimeoutMs`, with any value of `failOnDataLoss`.

    A range can end in an open transaction if its query read uncommitted records before. The task reads the records once
    they are committed.
    """
    committed = topic.options(kafka_isolation_level="read_committed")
    whole = OffsetRange(TopicPartition(topic.name, PartitionIndex(0)), Offset(0), Offset(5))

    def read(**more: str) -> list[int]:
        options = SourceOptions.for_batch(committed | more)
        tables = read_range(options.reading_client, whole, LossPolicy(fail=fail), include_headers=False)
        return [int(value) for table in tables for value in table.column("value").to_pylist()]

    with pytest.raises(GaveUp, match=r"brought nothing from offset 3 on.*up to 5 \(a transaction may be open there\)"):
        read(**{"kafkaConsumer.pollTimeoutMs": "500"})

    transaction.commit_transaction(_PATIENCE_S)
    assert read() == list(range(5))
