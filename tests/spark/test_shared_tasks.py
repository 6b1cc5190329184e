"""Tests that a task that fetches many small ranges together returns the rows of each range. Needs no Spark session."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from tests.support.spark_topics import Topic

from klamm.client.connection import Connection
from klamm.client.errors import GaveUp
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.errors import DataLoss, LossPolicy
from klamm.spark.source.offsets import OffsetRange
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.stream_reader import KlammStreamReader
from klamm.spark.source.tasks.partition_reader import read_range, shared_cluster
from klamm.spark.source.tasks.task_reader import read_task

_FETCH = 1
_PATIENCE_S = 60
Row = tuple[str, int, int, bytes | None, bytes | None]


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list with an entry for each Fetch request that was sent."""
    sent: list[int] = []
    send_body = Connection.send_body

    def counted(self: Connection, api_key: int, *given: Any, **more: Any) -> Any:
        if api_key == _FETCH:
            sent.append(api_key)
        return send_body(self, api_key, *given, **more)

    monkeypatch.setattr(Connection, "send_body", counted)
    return sent


def options_of(topic: Topic, **more: str) -> SourceOptions:
    return SourceOptions.for_stream(topic.options(startingOffsets="earliest") | more)


def the_range(topic: Topic, partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition(topic.name, PartitionIndex(partition)), Offset(start), Offset(end))


def rows_of(batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> list[Row]:
    names = ("topic", "partition", "offset", "key", "value")
    return [row for batch in batches for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)]


def together(options: SourceOptions, task: Sequence[OffsetRange], *, fail: bool = True) -> list[Row]:
    return rows_of(read_task(options.reading_client, task, LossPolicy(fail=fail), include_headers=False))


def one_by_one(options: SourceOptions, task: Sequence[OffsetRange], *, fail: bool = True) -> list[Row]:
    return [
        row
        for one in task
        for row in rows_of(read_range(options.reading_client, one, LossPolicy(fail=fail), include_headers=False))
    ]


def by_partition(rows: list[Row]) -> list[Row]:
    """Sorts rows by partition, and keeps the order within each partition; no other order is guaranteed."""
    return sorted(rows, key=lambda row: row[:2])


def test_a_thousand_small_ranges_take_few_requests_and_one_record_batch(
    new_topic: Callable[..., Topic], fetches: list[int], brokers: int
) -> None:
    """A thousand small ranges, planned and read as Spark does it, are one task with one batch. Each request to a broker
    asks for up to a hundred of its ranges."""
    topic = new_topic(partitions=1_000)
    topic.produce_records([{"value": f"{index % 1_000}", "partition": index % 1_000} for index in range(3_000)])
    reader = KlammStreamReader(options_of(topic))
    start = reader.initialOffset()
    (task,) = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    fetches.clear()

    batches = list(reader.read(task))
    reader.stop()

    assert 10 <= len(fetches) < 10 + brokers
    assert [len(batch) for batch in batches] == [3_000]
    assert {(partition, offset, value) for _, partition, offset, _, value in rows_of(batches)} == {
        (index, offset, b"%d" % index) for index in range(1_000) for offset in range(3)
    }


def test_a_range_alone_is_read_as_ever(topic: Topic, fetches: list[int]) -> None:
    """A task with a single range reads it with one Fetch request."""
    topic.produce(range(10), 1)

    assert len(together(options_of(topic), [the_range(topic, 1, 2, 8)])) == 6
    assert len(fetches) == 1


@pytest.mark.parametrize("seed", range(2 if os.environ.get("CI") else 6))  # each takes seconds
def test_the_rows_are_those_of_the_ranges_one_by_one(new_topic: Callable[..., Topic], seed: int) -> None:
    """A shared read returns the rows of separate reads, with any codecs, bounds, sizes, limits and deleted starts."""
    chance = random.Random(seed)
    topics = [new_topic(partitions=12) for _ in range(2)]
    task: list[OffsetRange] = []
    for topic in topics:
        for partition in range(12):
            count = chance.choice([0, 1, 7, 60])
            for _ in range(count and chance.randint(1, 3)):
                size = chance.choice([0, 10, 1_000, 60_000])
                codec = chance.choice(["none", "gzip", "lz4", "zstd", "snappy"])
                values = [{"key": str(index), "value": bytes(size)} for index in range(count)]
                topic.produce_records(values, partition, **{"compression.type": codec})
        for partition, end in enumerate(topic.ends(12)):
            start = chance.randint(0, end)
            until = chance.randint(start, end)
            if start < until:
                task.append(the_range(topic, partition, start, until))
            if end and chance.random() < 0.2:
                topic.delete_before(chance.randint(0, end), partition)
    chance.shuffle(task)
    # With the small limits, an answer has room for only a part of the task.
    options = options_of(topics[0], **{"kafka.fetch.max.bytes": str(chance.choice([1, 100_000, 50_000_000]))})

    rows = together(options, task, fail=False)

    assert by_partition(rows) == by_partition(one_by_one(options, task, fail=False))


@pytest.mark.parametrize("fail", [True, False], ids=["failOnDataLoss", "not failOnDataLoss"])
def test_offsets_that_are_gone_are_loss(
    topic: Topic, caplog: pytest.LogCaptureFixture, fetches: list[int], brokers: int, fail: bool
) -> None:
    """Deleted offsets are a loss of their range only: with `failOnDataLoss=false` all remaining rows are read."""
    for partition in range(3):
        topic.produce(range(10), partition)
    topic.delete_before(4, 1)
    task = [the_range(topic, partition, 2, 10) for partition in range(3)]
    options = options_of(topic)
    text = rf"range \[2, 10\) for partition {topic.name}-1: the log has \[4, 10\)"

    if fail:
        with pytest.raises(DataLoss, match=text):
            together(options, task)
    else:
        with caplog.at_level(logging.WARNING, "klamm.spark"):
            rows = together(options, task, fail=False)
        offsets = {
            partition: [row[2] for row in of_one]
            for partition, of_one in groupby(by_partition(rows), lambda row: row[1])
        }
        assert offsets == {0: [*range(2, 10)], 1: [*range(4, 10)], 2: [*range(2, 10)]}
        # The broker in this process has logs of its own.
        assert len([record for record in caplog.records if record.name.startswith("klamm.spark")]) == 1
        # All ranges together (from each broker), the refused range alone, and from the log start.
        assert len(fetches) == brokers + 2


def test_an_open_transaction_holds_up_its_range_alone(topic: Topic) -> None:
    """The rows before an open transaction come with the other ranges; then the task waits as for a single range."""
    for partition in range(3):
        topic.produce(range(3), partition)
    producer = Producer(
        {
            "bootstrap.servers": topic.bootstrap_servers,
            "transactional.id": topic.name,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(_PATIENCE_S)
    producer.begin_transaction()
    for value in ("3", "4"):
        producer.produce(topic.name, value, partition=1)
    assert producer.flush(_PATIENCE_S) == 0
    committed = {"kafka.isolation.level": "read_committed"}
    options = options_of(topic, **committed, **{"kafkaConsumer.pollTimeoutMs": "500"})
    task = [the_range(topic, 0, 0, 3), the_range(topic, 1, 0, 5), the_range(topic, 2, 0, 3)]

    batches = read_task(options.reading_client, task, LossPolicy(fail=True), include_headers=False)
    assert len(rows_of([next(batches)])) == 9
    with pytest.raises(GaveUp, match=r"-1 brought nothing from offset 3 on"):
        next(batches)

    producer.abort_transaction(_PATIENCE_S)
    # With the usual patience: the marker may be written after the answer.
    assert len(together(options_of(topic, **committed), task)) == 9


def test_a_topic_made_anew_is_not_read_for_the_old_one(new_topic: Callable[..., Topic]) -> None:
    """A topic that was created again is not read as the old topic, although it has all the offsets: its ranges are
    lost.

    The check works whether this process has the metadata of the old topic or of the new topic.
    """
    topic, other = new_topic(partitions=3), new_topic(partitions=3)
    for each in (topic, other):
        for partition in range(3):
            each.produce(range(5), partition)
    options = options_of(topic)
    client = options.reading_client
    cluster = shared_cluster(client)
    cluster.refresh([topic.name, other.name])
    task = [
        the_range(each, partition, 0, 5)._replace(topic_id=described.topic_id)
        for each in (topic, other)
        for partition in range(3)
        if (described := cluster.topic(each.name)) is not None
    ]
    assert len(together(options, task)) == 30
    topic.delete()
    topic.make_again(3)
    for partition in range(3):
        topic.produce(range(5), partition)

    for _ in range(2):
        with pytest.raises(DataLoss, match=f"The topic {topic.name} was deleted and created again"):
            together(options, task)
    assert {row[0] for row in together(options, task, fail=False)} == {other.name}


def test_more_than_an_answer_holds_comes_in_several(topic: Topic, fetches: list[int]) -> None:
    """If a shared answer does not hold all records, the next one continues where it ended, in order."""
    topic.produce(range(5), 0)
    topic.produce_records([{"value": bytes(100_000)} for _ in range(20)], 1, **{"batch.num.messages": 1})
    topic.produce(range(5), 2)
    options = options_of(topic, **{"kafka.max.partition.fetch.bytes": "500000"})
    task = [the_range(topic, 0, 0, 5), the_range(topic, 1, 0, 20), the_range(topic, 2, 0, 5)]

    rows = together(options, task)

    assert [row[1:3] for row in rows if row[1] == 1] == [(1, offset) for offset in range(20)]
    assert by_partition(rows) == by_partition(one_by_one(options, task))


def test_a_damaged_batch_is_named_with_its_partition(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a damaged batch names its partition, also if the batch was fetched with other partitions."""
    for partition in range(3):
        topic.produce(range(5), partition)
    monkeypatch.setattr("klamm.protocol.record_batch.crc32c", lambda *_: 0)
    monkeypatch.setattr("klamm.spark.source.tasks.columns.crc32c", lambda *_: 0)
    task = [the_range(topic, partition, 0, 5) for partition in (2, 1)]

    with pytest.raises(Exception, match=f"CORRUPT_MESSAGE: {topic.name}-2: the CRC of the batch at offset 0"):
        together(options_of(topic), task)


@pytest.fixture
def nanoseconds(new_topic: Callable[..., Topic]) -> Topic:
    """Writes ten records to each of two partitions, then one with a timestamp in nanoseconds to the second."""
    topic = new_topic(partitions=2, message_timestamp_after_max_ms=str(2**63 - 1))
    for partition in range(2):
        topic.produce(range(10), partition, **{"batch.num.messages": 2})
    topic.produce_records([{"value": b"v", "timestamp": 1_700_000_000_000_000_000}], 1)
    return topic


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_time_that_is_none_is_named_with_its_partition(
    nanoseconds: Topic, monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    """The error for an invalid timestamp names the partition of the record, with and without the compiled module.

    Without the compiled module, the timestamp is checked when the table is built, which has rows of several partitions.
    """
    if not is_compiled:
        monkeypatch.setattr("klamm.spark.source.tasks.columns.IS_COMPILED", False)
    task = [the_range(nanoseconds, 1, 0, 11), the_range(nanoseconds, 0, 0, 10)]

    with pytest.raises(KafkaError, match=f"{nanoseconds.name}-1: the record at offset 10 has the timestamp"):
        together(options_of(nanoseconds), task)


def test_what_spark_has_of_a_task_that_fails_is_not_brought_again(
    nanoseconds: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing task returns no row twice, even if its last table ended in the middle of a range."""
    monkeypatch.setattr("klamm.spark.source.tasks.tables._ROWS", 7)
    task = [the_range(nanoseconds, 0, 0, 10), the_range(nanoseconds, 1, 0, 11)]
    batches = read_task(options_of(nanoseconds).reading_client, task, LossPolicy(fail=True), include_headers=False)
    rows: list[Row] = []

    def read() -> None:
        for batch in batches:
            rows.extend(rows_of([batch]))

    with pytest.raises(KafkaError, match=f"{nanoseconds.name}-1: the record at offset 10"):
        read()
    brought = [row[1:3] for row in rows]
    assert brought[:10] == [(0, offset) for offset in range(10)]
    assert brought[10:] == [(1, offset) for offset in range(len(brought) - 10)]
    assert len(brought) > 10
