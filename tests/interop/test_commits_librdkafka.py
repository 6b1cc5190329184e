"""Tests commits of librdkafka: bursts write few records, and acknowledged commits survive a crash (I17)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.broker_process import BrokerProcess

PARTITIONS = 20
BURSTS, COMMITS = 5, 40


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for one test, which reads the broker's folder."""
    process = BrokerProcess(tmp_path, {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"})
    admin = AdminClient({"bootstrap.servers": process.bootstrap_servers})
    admin.create_topics([NewTopic("events", PARTITIONS, 1)])["events"].result(30)
    yield process
    if process.is_running:
        process.stop()


def bytes_written(broker: BrokerProcess) -> int:
    return sum(file.stat().st_size for file in broker.data_directory.glob("__consumer_offsets-*/*.log"))


class Committer:
    """A member that owns the topic and commits all its partitions without waiting; `acknowledged` is the highest offset
    whose commit was acknowledged."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.acknowledged = -1
        self.answers = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "orders",
                "enable.auto.commit": False,
                "on_commit": self.on_commit,
            }
        )
        assigned = threading.Event()
        self.consumer.subscribe(["events"], on_assign=lambda consumer, partitions: assigned.set())
        deadline = time.monotonic() + 30
        while not assigned.is_set():
            self.consumer.poll(0.1)
            assert time.monotonic() < deadline, "no assignment"

    def on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        self.answers += 1
        if error is None:
            self.acknowledged = max(self.acknowledged, offsets[0].offset)

    def commit(self, offset: int) -> None:
        offsets = [TopicPartition("events", index, offset) for index in range(PARTITIONS)]
        self.consumer.commit(offsets=offsets, asynchronous=True)

    def wait_for(self, answers: int) -> None:
        deadline = time.monotonic() + 30
        while self.answers < answers:
            self.consumer.poll(0.05)
            assert time.monotonic() < deadline, f"{self.answers} of {answers} commits were answered"

    def committed(self) -> set[int]:
        asked = [TopicPartition("events", index) for index in range(PARTITIONS)]
        return {partition.offset for partition in self.consumer.committed(asked, 30)}


def test_bursts_leave_few_records_and_the_last_commit_stands(broker: BrokerProcess) -> None:
    """The broker answers every commit of a burst, and writes less than three quarters of the bytes of separate commits.
    The last commit survives a crash."""
    committer = Committer(broker)
    before = bytes_written(broker)
    committer.commit(0)
    committer.wait_for(1)
    bytes_of_one = bytes_written(broker) - before
    for burst in range(BURSTS):
        for commit in range(COMMITS):
            committer.commit(1 + burst * COMMITS + commit)
        committer.wait_for(1 + (burst + 1) * COMMITS)
    last = BURSTS * COMMITS
    assert committer.acknowledged == last
    assert committer.committed() == {last}
    assert bytes_written(broker) - before < bytes_of_one * BURSTS * COMMITS * 3 / 4
    broker.kill()
    broker.start()
    assert committer.committed() == {last}
    committer.consumer.close()


def test_acknowledged_commit_survives_a_crash_in_a_burst(broker: BrokerProcess) -> None:
    """After a crash, all partitions have the same committed offset: the last acknowledged one, or a later one."""
    committer = Committer(broker)
    for offset in range(COMMITS):
        committer.commit(offset)
    committer.wait_for(COMMITS // 2)
    broker.kill()
    acknowledged = committer.acknowledged
    broker.start()
    (found,) = committer.committed()
    assert acknowledged <= found < COMMITS
    committer.consumer.close()


def test_repeated_commits_leave_nothing(broker: BrokerProcess) -> None:
    """A commit that repeats the committed offsets, like an automatic commit of an idle consumer, writes no record."""
    committer = Committer(broker)
    committer.commit(7)
    committer.wait_for(1)
    before = bytes_written(broker)
    for count in range(2, 50):
        committer.commit(7)
        committer.wait_for(count)
    assert bytes_written(broker) == before
    broker.kill()
    broker.start()
    assert committer.committed() == {7}
    committer.consumer.close()
