"""Load for a broker that fails repeatedly, and the checks at the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.broker_process import BrokerProcess
from tests.support.group_coordinator import committed_by_group

from klamm.storage.segment.batch_scan import check_batches

if TYPE_CHECKING:
    from tests.checker.cluster_brokers import ClusterBrokers

__all__ = ["ROUNDS", "TOPIC", "Keeper", "Writer", "assert_all_goes_on", "check_logs", "create", "endure", "read_all"]

ROUNDS = int(os.environ.get("KLAMM_FAULT_ROUNDS", "10"))
"""The number of faults of a broker; `make faults` sets a larger number."""

TOPIC = "records"
_FLUSH_S = 120.0


class Writer:
    """An idempotent producer that counts up, and keeps the acknowledged numbers of each partition in order."""

    def __init__(self, bootstrap_servers: str, value_bytes: int = 20) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,
                # Longer than any wait for acknowledgements, which is what fails if a record has none.
                "message.timeout.ms": 600_000,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._padding = "x" * value_bytes
        self.sent = 0
        self.acknowledged: dict[int, list[str]] = {}
        self.errors: list[int] = []

    def send(self, count: int) -> None:
        """Sends the next records; waits for room in the queue, not for acknowledgements."""
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
        """Waits for acknowledgements, and returns the number of records without an answer."""
        return self._producer.flush(timeout_s)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.code())
        else:
            value = message.value()
            assert value is not None
            number = value.decode().split(":")[0] if isinstance(value, bytes) else value
            self.acknowledged.setdefault(message.partition() or 0, []).append(number)


def read_all(bootstrap_servers: str, partitions: int, *, first: int = 0) -> dict[int, list[str]]:
    """Returns the number of every record by partition, in the order of the log, for partitions from `first` on."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(first, partitions)])
    found: dict[int, list[str]] = {index: [] for index in range(first, partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < len(found):
        assert time.monotonic() < deadline, "the log was not read to its end"
        for message in consumer.consume(10_000, timeout=1):
            # Hundreds of rounds write many millions of records, so the deadline starts again with each record.
            deadline = time.monotonic() + 60
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


def create(bootstrap_servers: str, partitions: int, replication_factor: int = 1, topic: str = TOPIC) -> None:
    """Creates a topic. Raises KafkaException if it is refused."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, replication_factor)])[topic].result(60)


class Keeper:
    """A group that commits rising offsets: the committed offset is the last acknowledged one, or a later one."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "keeper",
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            "enable.auto.commit": False,
        }
        self._consumer = Consumer(self._settings)
        self.tried = 0
        self.acknowledged = 0

    def commit(self) -> None:
        """Commits the next offset; a failure is expected here."""
        self.tried += 1
        try:
            (committed,) = self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, self.tried)], asynchronous=False)
        except KafkaException:
            return
        if committed.error is None:
            self.acknowledged = self.tried

    def commit_for_sure(self) -> None:
        """Commits rising offsets until one is acknowledged, after the fault is over."""
        self.commit()
        deadline = time.monotonic() + 60
        while self.acknowledged < self.tried:
            assert time.monotonic() < deadline, "no commit was acknowledged"
            self.commit()

    def check(self) -> None:
        """Checks I17: the committed offset is the last acknowledged one, or a later one whose answer was lost."""
        consumer = Consumer(self._settings)
        (found,) = committed_by_group(consumer, [TopicPartition(TOPIC, 0)])
        consumer.close()
        assert found.error is None
        assert self.acknowledged <= max(found.offset, 0) <= self.tried

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


def assert_all_goes_on(cluster: ClusterBrokers, writer: Writer, keeper: Keeper, partitions: int) -> None:
    """Asserts that a cluster whose etcd was in trouble is well again: each record of the writer is there once, and no
    committed offset has gone back; offsets are committed, and topics created."""
    assert writer.flush(_FLUSH_S) == 0
    assert not writer.errors
    keeper.commit_for_sure()
    keeper.check()
    keeper.close()
    create(cluster.bootstrap_servers, 1, 3, "accepted")
    cluster.wait_until_in_sync(TOPIC, "accepted")
    assert read_all(cluster.bootstrap_servers, partitions) == writer.acknowledged
    assert "Traceback" not in cluster.log()


def endure(process: BrokerProcess, rounds: int, random: Random, strike: Callable[[], None]) -> None:
    """Writes and commits while the broker is struck and restarted several times, then checks the result.

    I4, I9, I10: every acknowledged record is in the log once, unchanged and in the order of sending. I17: the committed
    offsets survive. I1, I8: the files contain whole batches without gaps. `strike` ends the process.
    """
    create(process.bootstrap_servers, 2)
    writer, keeper = Writer(process.bootstrap_servers), Keeper(process.bootstrap_servers)
    has_ended = threading.Event()

    def write() -> None:
        while not has_ended.wait(0.01):
            writer.send(200)

    def commit() -> None:
        while not has_ended.wait(0.01):
            keeper.commit()

    threads = [threading.Thread(target=each, daemon=True) for each in (write, commit)]
    for thread in threads:
        thread.start()
    try:
        for number in range(rounds):
            acknowledged = sum(map(len, writer.acknowledged.values()))
            deadline = time.monotonic() + 60
            while sum(map(len, writer.acknowledged.values())) <= acknowledged:
                assert time.monotonic() < deadline, f"nothing was acknowledged in round {number}"
                time.sleep(0.005)
            time.sleep(random.random() * 0.3)
            strike()
            process.start()
    finally:
        has_ended.set()
        for thread in threads:
            thread.join(60)  # a commit never ends when the broker does not return
    assert not any(thread.is_alive() for thread in threads)
    assert writer.flush(60) == 0
    assert not writer.errors
    found = read_all(process.bootstrap_servers, 2)
    assert found == {index: writer.acknowledged.get(index, []) for index in range(2)}
    assert sum(map(len, found.values())) == writer.sent
    for numbers in found.values():
        assert numbers == sorted(numbers, key=int)
    assert keeper.acknowledged > 0
    keeper.check()
    keeper.close()
    process.stop()
    assert check_logs(process.data_directory) > 0


def check_logs(data_directory: Path) -> int:
    """Checks every log file of a stopped broker, and returns the number of batches.

    I1: offsets have no gaps, leader epochs never fall, CRCs are valid. (The test compacts nothing.)
    """
    count = 0
    for folder in sorted(path for path in data_directory.iterdir() if path.is_dir()):
        expected, epoch = None, -1
        for path in sorted(folder.glob("*.log")):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                for _, header in check_batches(descriptor, path.stat().st_size):
                    assert expected is None or header.base_offset == expected, path
                    assert header.partition_leader_epoch >= epoch, path
                    expected, epoch = header.next_offset, header.partition_leader_epoch
                    count += 1
            finally:
                os.close(descriptor)
    return count
