"""`klamm serve --workers` as processes: how workers start, die, come back, and stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import PATIENCE_S
from tests.support.workers import Workers

TOPIC = "orders"
PARTITIONS = 6
_MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PLAINTEXT_B:PLAINTEXT"


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


def _wait(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _client(bootstrap_servers: str, **config: Any) -> dict[str, Any]:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200, **settings}


def _create(bootstrap_servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient(_client(bootstrap_servers))
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()


def _leaders(bootstrap_servers: str) -> list[int]:
    topic = AdminClient(_client(bootstrap_servers)).list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC]
    return [topic.partitions[index].leader for index in range(len(topic.partitions))]


def _read(bootstrap_servers: str, count: int) -> list[str]:
    consumer = Consumer(_client(bootstrap_servers, group_id="reader"))
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    messages = consumer.consume(count, PATIENCE_S)
    consumer.close()
    return sorted((message.value() or b"").decode() for message in messages)


def test_a_killed_worker_is_back_with_its_partitions(start: Start) -> None:
    """Workers share the partitions. One that is killed while a producer writes comes back: nothing that the producer
    wrote is lost or repeated, and a clean stop ends all processes with status 0."""
    workers = start("--workers", "3")
    addresses = workers.ready(3)
    _create(addresses, TOPIC, PARTITIONS)
    assert sorted(_leaders(addresses)) == [1, 1, 2, 2, 3, 3]
    producer = Producer(_client(addresses, enable_idempotence=True, retry_backoff_ms=20))
    values = [f"{number:05}" for number in range(3_000)]
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
        if number == 1_500:
            producer.poll(0.1)
            killed = workers.children()
            os.kill(killed[2], signal.SIGKILL)
    assert producer.flush(PATIENCE_S) == 0
    assert workers.children()[2] != killed[2]
    # The new process has a new port, because the test lets each pick a free one; the other workers tell it.
    assert _read(addresses, 3_000) == values
    assert workers.stop() == 0


def test_workers_stop_when_their_supervisor_dies(start: Start) -> None:
    """After a kill of the supervisor its workers stop by themselves, and a new supervisor finds everything."""
    workers = start("--workers", "2")
    addresses = workers.ready(2)
    _create(addresses, TOPIC, PARTITIONS)
    producer = Producer(_client(addresses))
    for number in range(PARTITIONS):
        producer.produce(TOPIC, str(number), partition=number)
    assert producer.flush(PATIENCE_S) == 0
    children = workers.children()
    assert set(children) == {1, 2}
    workers.process.kill()
    workers.process.wait()
    _wait(lambda: not any(Path(f"/proc/{child}").exists() for child in children.values()))
    again = start("--workers", "2")
    assert _read(again.ready(2), PARTITIONS) == [str(number) for number in range(PARTITIONS)]
    assert again.stop() == 0


def test_a_single_broker_becomes_several_workers_and_not_fewer(start: Start) -> None:
    """The data of a single broker are worker 1's. A start with fewer workers is refused while others have partitions,
    and names them."""
    single = start()
    address = single.ready(1)
    _create(address, TOPIC, 2)
    assert single.stop() == 0
    workers = start("--workers", "2")
    addresses = workers.ready(2)
    assert _leaders(addresses) == [1, 1]
    _create(addresses, "more", 4)
    assert workers.stop() == 0
    for words in ((), ("--workers", "1")):
        fewer = start(*words)
        assert fewer.process.wait(PATIENCE_S) == 1
        assert "broker 2 has 2 partitions, which would be away" in fewer.log.read_text()
    assert start("--workers", "2").ready(2)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--workers", "0"), "takes a number from 1 on"),
        (("--workers", "2", "-X", "node.id=7"), "goes without node.id=7"),
        (
            ("--workers", "2", "-X", "listeners=PLAINTEXT://127.0.0.1:1,PLAINTEXT_B://127.0.0.1:2", "-X", _MAP),
            "takes one listener",
        ),
    ],
)
def test_what_workers_can_not_share_is_refused(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    """A configuration that makes no sense for several workers is refused with a sentence, and nothing is written."""
    workers = Workers(tmp_path, *words, listen="")
    assert workers.process.wait(PATIENCE_S) == 2
    workers.end()
    assert reason in workers.log.read_text()
    assert not (tmp_path / "data").exists()
