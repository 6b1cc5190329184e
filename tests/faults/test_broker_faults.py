"""A broker that is killed under load, and one whose disk fills up: what was acknowledged is there, once, in order."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.broker_process import BrokerProcess

ROUNDS = 3
TOPIC = "records"


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker process of the test's own."""
    process = BrokerProcess(tmp_path, {"offsets.topic.num.partitions": "1", "num.partitions": "2"})
    yield process
    if process.is_running:
        process.stop()
    assert "Traceback" not in process.log(), process.log()[-4000:]


class Writer:
    """An idempotent producer that counts up, and remembers what was acknowledged, by partition in order."""

    def __init__(self, bootstrap_servers: str, value_bytes: int = 20) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._padding = "x" * value_bytes
        self.sent = 0
        self.acknowledged: dict[int, list[str]] = {}
        self.errors: list[int] = []

    def send(self, count: int) -> None:
        """Sends the next records; waits for room, not for acknowledgements."""
        for _ in range(count):
            number = str(self.sent)
            self.sent += 1
            while True:
                try:
                    self._producer.produce(
                        TOPIC, value=f"{number}:{self._padding}", key=number, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self._producer.poll(0.05)
            self._producer.poll(0)

    def flush(self, timeout_s: float) -> int:
        """Waits; returns how many are not answered yet."""
        return self._producer.flush(timeout_s)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.code())
        else:
            value = message.value()
            assert value is not None
            number = value.decode().split(":")[0] if isinstance(value, bytes) else value
            self.acknowledged.setdefault(message.partition() or 0, []).append(number)


def read_all(bootstrap_servers: str, partitions: int) -> dict[int, list[str]]:
    """Every record's number, by partition, in the order of the log."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(partitions)])
    found: dict[int, list[str]] = {index: [] for index in range(partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < partitions:
        assert time.monotonic() < deadline, "the log was not read to its end"
        message = consumer.poll(1)
        if message is None:
            continue
        partition = message.partition() or 0
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(partition)
            continue
        value = message.value()
        assert isinstance(value, bytes)
        found[partition].append(value.decode().split(":")[0])
    consumer.close()
    return found


def create(bootstrap_servers: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(10)


def test_kill_under_load(process: BrokerProcess) -> None:
    """I4, I8, I10: kill -9 while an idempotent producer writes; after each restart it goes on, and at the end every
    acknowledged record is there exactly once, in the order in which it was sent."""
    create(process.bootstrap_servers, 2)
    writer = Writer(process.bootstrap_servers)
    for _ in range(ROUNDS):
        thread = threading.Thread(target=writer.send, args=(20_000,))
        thread.start()
        time.sleep(0.3)
        process.kill()
        process.start()
        thread.join()
    assert writer.flush(60) == 0
    assert not writer.errors
    found = read_all(process.bootstrap_servers, 2)
    assert found == {index: writer.acknowledged.get(index, []) for index in range(2)}
    assert sum(map(len, found.values())) == writer.sent
    for numbers in found.values():
        assert numbers == sorted(numbers, key=int)


def test_full_disk(process: BrokerProcess) -> None:
    """I4: writes to a disk without room fail with KAFKA_STORAGE_ERROR; what was acknowledged stays readable, and with
    room again writing goes on without a restart. A limit of the process on the size of files stands for the disk."""
    create(process.bootstrap_servers, 1)
    pid = process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
    writer = Producer({"bootstrap.servers": process.bootstrap_servers, "retries": 0, "log_level": 0, "linger.ms": 0})
    outcomes: list[int | None] = []
    stored: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcomes.append(None if error is None else error.code())
        if error is None:
            value = message.value()
            assert isinstance(value, bytes)
            stored.append(value.decode().split(":")[0])

    def write(number: int) -> None:
        writer.produce(TOPIC, value=f"{number}:{'x' * 50_000}", partition=0, on_delivery=delivered)
        assert writer.flush(20) == 0

    for number in range(60):
        write(number)
    assert None in outcomes
    assert KafkaError.KAFKA_STORAGE_ERROR in outcomes
    assert read_all(process.bootstrap_servers, 1)[0] == stored
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write(1000)
    assert outcomes[-1] is None
    assert read_all(process.bootstrap_servers, 1)[0] == stored
    process.restart()
    assert read_all(process.bootstrap_servers, 1)[0] == stored
