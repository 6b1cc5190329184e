"""Tests streams with `kafka.isolation.level=read_committed`, which neither read nor lose uncommitted records."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.support.spark_queries import Runs
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 60


@pytest.fixture
def runs(spark: SparkSession, topic: Topic, tmp_path: Path) -> Runs:
    return Runs(spark, topic, tmp_path / "checkpoint")


@pytest.fixture
def producer(topic: Topic) -> Producer:
    """Returns a transactional producer."""
    # The transaction stays open until the test ends it, also while Spark starts a query on a busy machine.
    settings = {"transactional.id": topic.name, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, **settings})
    producer.init_transactions(_PATIENCE_S)
    return producer


def begin(producer: Producer, topic: Topic, *values: str) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic.name, value, partition=0)
    assert producer.flush(_PATIENCE_S) == 0


def commit(producer: Producer, topic: Topic, *committed: str) -> None:
    """Commits the transaction, and waits until the committed records of partition 0 are the given ones.

    Apache Kafka answers the request before it writes the markers, so the records become visible a little later.
    """
    producer.commit_transaction(_PATIENCE_S)
    deadline = time.monotonic() + _PATIENCE_S
    while (found := [(record.value or b"").decode() for record in topic.records(1)[0]]) != list(committed):
        assert time.monotonic() < deadline, f"committed are {found}, not {list(committed)}"
        time.sleep(0.05)


def test_a_stream_reads_transactions_when_they_are_committed(topic: Topic, runs: Runs, producer: Producer) -> None:
    """A stream reads the records of a transaction when it is committed, and never reads aborted records."""
    with runs.running(startingOffsets="earliest", kafka_isolation_level="read_committed") as (query, sink):
        begin(producer, topic, "a", "b")
        query.processAllAvailable()
        assert sink.values == []
        commit(producer, topic, "a", "b")
        query.processAllAvailable()
        assert sink.values == ["a", "b"]
        begin(producer, topic, "c")
        producer.abort_transaction(_PATIENCE_S)
        begin(producer, topic, "d")
        commit(producer, topic, "a", "b", "d")
        query.processAllAvailable()

    assert sink.values == ["a", "b", "d"]


def test_a_query_that_becomes_committed_only_waits_where_it_stands(
    topic: Topic, runs: Runs, producer: Producer
) -> None:
    """A query that changes to read_committed after it read records of an open transaction waits at its position.

    Its position is beyond the committed records, which is no loss, and no record is read twice.
    """
    topic.produce(["before"], 0)
    begin(producer, topic, "open")
    assert runs.to_the_end(startingOffsets="earliest").values == ["before", "open"]

    assert runs.to_the_end(kafka_isolation_level="read_committed").values == []
    commit(producer, topic, "before", "open")
    topic.produce(["after"], 0)
    assert runs.to_the_end(kafka_isolation_level="read_committed").values == ["after"]
