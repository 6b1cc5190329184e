"""Tests exactly-once processing with transactions: consume, transform, produce, with aborted transactions and kills."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.java_client import driver_command

PARTITIONS = 3
RECORDS = 1334
"""Two records in each transaction, of which every third is aborted: a thousand transactions."""
KILLS = 5
TRANSACTIONS_BETWEEN_KILLS = 100
PATIENCE_S = 150

Start = Callable[[str, str, str], "subprocess.Popen[str]"]


@pytest.fixture
def start_librdkafka(bootstrap: str) -> Start:
    """Returns a function that starts the processor that is written with librdkafka."""
    command = [sys.executable, "-m", "tests.interop.drivers.process_exactly_once", bootstrap]
    return lambda *words: _start([*command, *words])


@pytest.fixture
def start_java(java_client_classpath: str, bootstrap: str) -> Start:
    """Returns a function that starts the processor that is written in Java."""
    command = driver_command(java_client_classpath, "ExactlyOnce", bootstrap)
    return lambda *words: _start([*command, *words])


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=Path(__file__).parents[2]
    )


def fill(bootstrap: str, topic: str) -> None:
    """Creates the input topic and the output topic, and writes the input records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (topic, f"{topic}-out")]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(RECORDS):
        producer.produce(topic, f"record-{index}", partition=index % PARTITIONS)
    assert producer.flush(30) == 0


def outputs(bootstrap: str, topic: str, isolation_level: str) -> Counter[str]:
    """Returns the records that a consumer reads up to the end offset of its isolation level."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    seen: Counter[str] = Counter()
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "no answer from the broker"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends += 1
        else:
            value = message.value()
            assert value is not None
            seen[value.decode()] += 1
    consumer.close()
    return seen


def is_done(bootstrap: str, topic: str, name: str) -> bool:
    """Returns whether the group has committed all input records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    committed = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], 30)
    consumer.close()
    return sum(max(0, each.offset) for each in committed) == RECORDS


def process(start: Start, bootstrap: str, topic: str, name: str) -> Counter[str]:
    """Runs the processor until all input records are processed, and kills it several times before.

    Returns the numbers of transactions that the processor reported as committed and as aborted.
    """
    said: Counter[str] = Counter()
    deadline = time.monotonic() + PATIENCE_S
    for kill in range(KILLS + 1):
        processor = start(topic, f"{topic}-out", name)
        assert processor.stdout is not None
        try:
            until = said["committed"] + said["aborted"] + TRANSACTIONS_BETWEEN_KILLS
            for line in processor.stdout:
                assert time.monotonic() < deadline, f"so far: {said}"
                outcome, _, _ = line.partition(" ")
                said[outcome.strip()] += 1
                if kill < KILLS and said["committed"] + said["aborted"] >= until:
                    break
                if outcome.strip() == "idle" and is_done(bootstrap, topic, name):
                    break
            else:
                pytest.fail(f"the processor has ended with status {processor.wait()}")
        finally:
            processor.kill()
            processor.wait()
            processor.stdout.close()
    return said


def check(start: Start, bootstrap: str) -> None:
    """Checks that a read_committed consumer reads one output per input, and a read_uncommitted consumer reads more
    outputs."""
    topic = f"exactly-once-{uuid.uuid4().hex[:12]}"
    fill(bootstrap, topic)
    said = process(start, bootstrap, topic, f"{topic}-processor")
    assert said["aborted"] >= RECORDS // 8
    expected = Counter(f"RECORD-{index}" for index in range(RECORDS))
    assert outputs(bootstrap, f"{topic}-out", "read_committed") == expected
    assert outputs(bootstrap, f"{topic}-out", "read_uncommitted").total() > RECORDS


@pytest.mark.timeout(240)
def test_librdkafka_processes_exactly_once(start_librdkafka: Start, bootstrap: str) -> None:
    """Processing is exactly once in transaction version 1: the client adds partitions, and the epoch stays the same."""
    check(start_librdkafka, bootstrap)


@pytest.mark.java
@pytest.mark.timeout(240)
def test_java_processes_exactly_once(start_java: Start, bootstrap: str) -> None:
    """Processing is exactly once in transaction version 2: the broker adds partitions, and each transaction has a new
    epoch (KIP-890)."""
    check(start_java, bootstrap)
