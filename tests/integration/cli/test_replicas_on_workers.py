"""`klamm serve --workers` as processes whose partitions have several replicas: another number of workers is refused
until each partition has one replica, however the workers were stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import PATIENCE_S, Command, until
from tests.support.group_coordinator import committed_by_group
from tests.support.share_of_gate import is_in_share_of_gate
from tests.support.workers import Workers

TOPIC: Final = "orders"
PARTITIONS: Final = 4
TWO: Final = ("--workers", "2", "-X", "offsets.topic.replication.factor=2")

Start = Callable[..., Workers]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Returns a function that starts workers on the test's data; kills what is left after the test."""
    started: list[Workers] = []

    def begin(*words: str) -> Workers:
        started.append(Workers(tmp_path, *words))
        return started[-1]

    yield begin
    for workers in started:
        workers.end()


def _client(bootstrap_servers: str, **config: Any) -> dict[str, Any]:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200, **settings}


def _leaders(bootstrap_servers: str) -> list[int]:
    topic = AdminClient(_client(bootstrap_servers)).list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC]
    return sorted(partition.leader for partition in topic.partitions.values())


def _fill(bootstrap_servers: str) -> None:
    """Writes a record into each partition of a new topic with two replicas, and commits an offset."""
    admin = AdminClient(_client(bootstrap_servers))
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 2)])[TOPIC].result(PATIENCE_S)
    producer = Producer(_client(bootstrap_servers, acks="all"))
    for index in range(PARTITIONS):
        producer.produce(TOPIC, str(index), partition=index)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(_client(bootstrap_servers, group_id="billing"))
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    consumer.close()


def _check(bootstrap_servers: str) -> None:
    """Checks that the records and the committed offset are there."""
    consumer = Consumer(_client(bootstrap_servers, group_id="billing"))
    (committed,) = committed_by_group(consumer, [TopicPartition(TOPIC, 0)])
    assert committed.offset == 1
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    values = {message.value() for message in consumer.consume(PARTITIONS, PATIENCE_S)}
    consumer.close()
    assert values == {str(index).encode() for index in range(PARTITIONS)}


def _refused(start: Start, *words: str) -> str:
    """Starts the command, which must refuse the data directory, and returns what it said last."""
    refused = start(*words)
    assert refused.process.wait(PATIENCE_S) == 1
    return refused.log.read_text().splitlines()[-1]


@pytest.mark.skipif(
    not is_in_share_of_gate("replicas on stopped workers", 3), reason="the gate runs it for a third of the commits"
)
def test_after_a_clean_stop(start: Start) -> None:
    """No partition with several replicas has a leader after a clean stop. A single broker is refused, and the same
    number of workers serves everything. With one replica each, in topics of users and in internal ones, the partitions
    follow the number of workers."""
    workers = start(*TWO)
    _fill(workers.ready(2))
    assert workers.stop() == 0
    assert "Nothing was changed: start with --workers 2 as before" in _refused(start)
    workers = start(*TWO)
    klamm = Command(addresses := workers.ready(2))
    _check(addresses)
    klamm.done("cluster", "reassign", TOPIC, "--replication-factor", "1")
    klamm.done("cluster", "reassign", "--internal", "--replication-factor", "1")
    until(lambda: {row["replication_factor"] for row in klamm.rows("topic", "list", "--all")} == {1})
    assert workers.stop() == 0
    workers = start("--workers", "3")
    addresses = workers.ready(3)
    until(lambda: set(_leaders(addresses)) == {1, 2, 3})
    _check(addresses)
    assert workers.stop() == 0


@pytest.mark.skipif(
    not is_in_share_of_gate("replicas on killed workers", 3), reason="the gate runs it for a third of the commits"
)
def test_after_a_kill_of_everything(start: Start) -> None:
    """After a kill of the supervisor and all workers a partition keeps its leader in the metadata. A single broker is
    refused nevertheless: no other broker could be elected there. As many workers as before elect leaders again, and
    serve everything; the command from the message then makes a single broker possible."""
    workers = start(*TWO)
    _fill(workers.ready(2))
    workers.kill_all()
    message = _refused(start)
    assert "Nothing was changed: start with --workers 2 as before" in message
    workers = start(*TWO)
    addresses = workers.ready(2)
    until(lambda: set(_leaders(addresses)) <= {1, 2})
    _check(addresses)
    command = re.search("`klamm (.*?)`", message)
    assert command is not None
    Command(addresses).done(*command[1].split())
    assert workers.stop() == 0
    single = start()
    _check(single.ready(1))
    assert single.stop() == 0
