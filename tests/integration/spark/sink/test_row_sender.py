"""The row sender writes rows as records to an embedded broker, with the producer of the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from tests.support.spark_topics import Record, Topic, create_topic

from klamm.client.errors import PartitionMissing
from klamm.client.producer.errors import RecordTooLarge
from klamm.spark.sink.errors import RowRefused
from klamm.spark.sink.row_sender import RowSender
from klamm.spark.sink.shared_producers import BorrowedProducer, borrow_producer
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.topic_rows import TopicRows
from klamm.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Runs a broker for the tests of this file."""
    with Broker() as running:
        yield running


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Topic:
    """Creates a topic with three partitions."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    name = f"topic-{abs(hash(request.node.name))}"
    return create_topic(admin, broker.bootstrap_servers, name, 3, {})


def options(topic: Topic, **more: str) -> SinkOptions:
    """Returns options that write to the topic; two underscores in a name mean a dot."""
    given = {key.replace("__", "."): value for key, value in more.items()}
    return SinkOptions.parse({"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name, **given})


def rows(topic: Topic, values: list[str], partitions: list[int | None] | None = None) -> TopicRows:
    """Returns rows with these values, and with keys equal to the values."""
    column = pa.array([value.encode() for value in values])
    places = None if partitions is None else pa.array(partitions, pa.int32())
    return TopicRows(topic.name, column, column, None, places)


def send(chosen: SinkOptions, *tables: TopicRows) -> BorrowedProducer:
    """Sends all rows as one task."""
    with borrow_producer(chosen.producer) as borrowed:
        sender = RowSender(borrowed, chosen)
        for table in tables:
            sender.send(table)
        sender.finish()
    return borrowed


def test_rows_go_to_their_partitions(topic: Topic) -> None:
    """Each row goes to its partition, and all rows are acknowledged when the task ends."""
    send(options(topic), rows(topic, ["a", "b"], [2, 0]), rows(topic, ["c", "d"], [2, None]))

    records = topic.records()
    assert records[0][0] == Record(b"b", b"b")
    assert records[2][:2] == [Record(b"a", b"a"), Record(b"c", b"c")]
    assert sum(map(len, records)) == 4


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_is_not_there_is_refused(topic: Topic, partition: int) -> None:
    """An unknown partition is refused before any row of the table is sent."""
    with pytest.raises(RowRefused, match=f"partition {partition} of the topic .* whose partitions are 0 to 2"):
        send(options(topic), rows(topic, ["a", "b"], [0, partition]))
    assert topic.records() == [[], [], []]


def test_a_partition_that_was_added_is_found(topic: Topic) -> None:
    """A producer that already knows the topic finds a partition that was added later."""
    send(options(topic), rows(topic, ["a"], [0]))
    topic.grow(4)

    send(options(topic), rows(topic, ["b"], [1]), rows(topic, ["c"], [3]))

    assert topic.records(4) == [[Record(b"a", b"a")], [Record(b"b", b"b")], [], [Record(b"c", b"c")]]


def test_keys_can_be_ignored(topic: Topic) -> None:
    """With partitioner.ignore.keys the rows are spread over all partitions."""
    value = "x" * 100
    chosen = options(topic, kafka__partitioner__ignore__keys="true", kafka__batch__size="1000")

    send(chosen, rows(topic, [value] * 60))

    assert [len(records) for records in topic.records()] == [20, 20, 20]


def test_tasks_share_a_producer_until_one_fails(topic: Topic) -> None:
    """Tasks of a process share a producer. The next task after an error gets another producer, and so does a child
    process."""
    chosen = options(topic, kafka__client__id="shared", kafka__max__request__size="1000")
    first = send(chosen, rows(topic, ["a"])).producer
    assert send(chosen, rows(topic, ["b"])).producer is first

    with pytest.raises(RecordTooLarge, match=r"more than max\.request\.size=1000"):
        send(chosen, rows(topic, ["x" * 2000]))

    second = send(chosen, rows(topic, ["c"])).producer
    assert second is not first
    child = os.fork()
    if not child:
        os._exit(BorrowedProducer(chosen.producer).producer is second)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_failed_delivery_fails_the_task(topic: Topic) -> None:
    """A failed delivery fails the task with the broker's error."""
    topic_of_small_records: Any = create_topic(
        topic.admin, topic.bootstrap_servers, f"{topic.name}-small", 1, {"max.message.bytes": "1000"}
    )

    with pytest.raises(Exception, match="MESSAGE_TOO_LARGE"):
        send(options(topic), rows(topic_of_small_records, ["x" * 2000]))


def test_no_broker_is_told_at_the_end_of_the_patience(topic: Topic) -> None:
    """Without a broker the task fails after max.block.ms, and the error names that option."""
    away = SinkOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.block.ms": "300"})

    with pytest.raises(PartitionMissing, match=r"within max\.block\.ms=300: does it exist"):
        send(away, rows(topic, ["a"]))
