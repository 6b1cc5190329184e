"""The exactly-once delivery on an embedded broker, without Spark: two runs of one query and their aborts."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.spark_topics import Topic, create_topic

from klamm.client.errors import RequestRefused
from klamm.protocol.records import encode_batch
from klamm.spark.sink.errors import WriteFailed
from klamm.spark.sink.exactly_once import ExactlyOnce
from klamm.spark.sink.marker_transaction import MarkerTransaction
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.staged_batches import StagedBatch, StagedTask, batch_prefix
from klamm.testing import Broker

NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Runs a broker for the tests of this file."""
    with Broker() as running:
        yield running


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Topic:
    """Creates a topic with one partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return create_topic(admin, broker.bootstrap_servers, f"topic-{abs(hash(request.node.name))}", 1, {})


@pytest.fixture
def sink(topic: Topic, tmp_path: Path) -> ExactlyOnce:
    """Returns the delivery of a query that has planned three micro-batches."""
    return planned(topic, tmp_path)


def planned(topic: Topic, tmp_path: Path, **further: str) -> ExactlyOnce:
    """Returns the delivery of a query with further options, after it has planned three micro-batches."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text(json.dumps({"id": topic.name}))
    for number in range(3):
        (tmp_path / "offsets" / f"{number}").write_text(f'v1\n{{"batchTimestampMs":{NOW_MS}}}\n{number}')
    options = {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "topic": topic.name,
        "klamm.sink.semantics": "exactly-once",
        "checkpointLocation": str(tmp_path),
        **further,
    }
    return ExactlyOnce(SinkOptions.parse(options), SinkColumns(value=0))


def task(topic: Topic, batch_id: int, run_id: str) -> StagedTask:
    """Returns the message of a task of one row."""
    batch = encode_batch([(NOW_MS, None, b"%d" % batch_id, ())])
    return StagedTask(topic.name, batch_id, run_id, 1, batch_prefix(topic.name, 0, len(batch)) + batch, None)


def begin(sink: ExactlyOnce, staged: StagedTask) -> MarkerTransaction:
    """Executes a commit up to the end of its transaction."""
    transaction = sink.open_transaction(sink.describe([staged], staged.batch_id))
    transaction.initialize()
    transaction.decide(transaction.read_marker(), None)
    transaction.begin()
    for batch in sink.staged_batches([staged]):
        transaction.send_batch(batch)
    transaction.flush()
    transaction.move_marker()
    return transaction


def values(topic: Topic) -> list[bytes | None]:
    """Returns the committed values."""
    return [record.value for record in itertools.chain(*topic.records(1))]


@pytest.mark.parametrize("batch_id", [0, 1, 2])
def test_a_run_whose_task_failed_leaves_another_run_alone(
    sink: ExactlyOnce, topic: Topic, batch_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A run whose task failed has no transaction. Its abort does not fence another run, which is within micro-batch
    1."""
    sink.commit([task(topic, 0, "working")], 0)
    transaction = begin(sink, task(topic, 1, "working"))
    with caplog.at_level(logging.WARNING):
        sink.abort([None, None], batch_id)

    transaction.end()

    transaction.close()
    assert values(topic) == [b"0", b"1"]
    assert ("its topics have it" if batch_id == 0 else "this run has sent no records of it") in caplog.text


def test_a_run_without_tasks_leaves_another_run_alone(
    sink: ExactlyOnce, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    """A micro-batch without tasks does not know its run, so its abort does not fence the run that may work on it."""
    sink.commit([task(topic, 0, "working")], 0)
    transaction = begin(sink, task(topic, 1, "working"))
    with caplog.at_level(logging.WARNING):
        sink.abort([], 1)

    transaction.end()

    transaction.close()
    assert values(topic) == [b"0", b"1"]
    assert "this run has sent no records of it" in caplog.text


def test_a_partition_that_was_added_after_the_begin(sink: ExactlyOnce, topic: Topic) -> None:
    """The driver's producer asks for the topic before a task's broker shows it a new partition: it asks again."""
    transaction = begin(sink, task(topic, 0, "run"))
    topic.grow(2)

    transaction.send_batch(StagedBatch(topic.name, 1, encode_batch([(NOW_MS, None, b"new", ())])))
    transaction.flush()
    transaction.end()

    transaction.close()
    assert [[record.value for record in records] for records in topic.records(2)] == [[b"0"], [b"new"]]


def test_a_failed_batch_ends_the_write_soon(sink: ExactlyOnce, topic: Topic) -> None:
    """A batch that a broker refuses is noticed by one of the next sends, although other batches are still on their
    way."""
    small = create_topic(topic.admin, topic.bootstrap_servers, f"{topic.name}-small", 1, {"max.message.bytes": "100"})
    transaction = begin(sink, task(topic, 0, "run"))
    large = encode_batch([(NOW_MS, None, bytes(1000), ())])

    def send_many() -> None:
        for _ in range(100_000):
            transaction.send_batch(StagedBatch(small.name, 0, large))

    with pytest.raises(RequestRefused, match="MESSAGE_TOO_LARGE"):
        send_many()

    transaction.close()
    assert values(topic) == []


def test_a_run_whose_commit_failed_ends_its_transaction(sink: ExactlyOnce, topic: Topic) -> None:
    """After all tasks of a run have succeeded, its abort ends the transaction of its commit."""
    transaction = begin(sink, task(topic, 0, "failed"))
    sink.abort([task(topic, 0, "failed")], 0)
    topic.produce(["other"])

    assert values(topic) == [b"other"]
    transaction.close()


def test_a_commit_that_comes_near_the_transaction_timeout_is_logged(
    topic: Topic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A commit that takes more than half of the time that its transaction may take is logged with its size."""
    sink = planned(topic, tmp_path, **{"kafka.transaction.timeout.ms": "6000"})
    with caplog.at_level(logging.WARNING):
        sink.commit([task(topic, 0, "run")], 0)
        assert caplog.text == ""
        transaction = begin(sink, task(topic, 1, "run"))
        time.sleep(3.1)

        transaction.end()

    transaction.close()
    assert values(topic) == [b"0", b"1"]
    assert "the driver sent 0.0 MB; after kafka.transaction.timeout.ms=6000" in caplog.text


def test_a_commit_without_the_message_of_a_task_is_refused(sink: ExactlyOnce, topic: Topic) -> None:
    """Is refused, as a part of the rows would be missing."""
    with pytest.raises(WriteFailed, match="the message of a task is missing"):
        sink.commit([task(topic, 0, "run"), None], 0)
    assert values(topic) == []
