"""Tests that the cleaners of Apache Kafka and klamm keep the same records, and that Kafka's tools read cleaned
segments."""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from tests.interop.broker_process import BrokerProcess
from tests.interop.conftest import BROKER_CONFIG
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.toolchains import toolchain_is_missing
from tests.support.topic_readiness import wait_until_led, wait_until_transactions_ended
from tests.support.wire import Wire

from klamm.protocol.compression import Compression
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import UnstampedRecord, encode_batch

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

CONFIG = {"log.cleaner.backoff.ms": "100"}
TOPIC = "table"
KEYS = 12
NOW_MS = int(time.time() * 1000)

Survivors = list[tuple[object, ...]]
"""Offset, key, value, timestamp and headers of the remaining records."""


class Peer(NamedTuple):
    """A broker and its data directory."""

    bootstrap_servers: str
    data: Path


@pytest.fixture(scope="module")
def kafka() -> Iterator[Peer]:
    """An Apache Kafka broker whose cleaner looks for work often."""
    try:
        with ApacheKafka(CONFIG) as kafka:
            yield Peer(kafka.bootstrap_servers, kafka.data_directory)
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.fixture(scope="module")
def klamm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A klamm broker with the same settings."""
    folder = tmp_path_factory.mktemp("klamm")
    process = BrokerProcess(folder, {**BROKER_CONFIG, **CONFIG})
    (data,) = {path.parent for path in folder.rglob("meta.properties")}
    yield Peer(process.bootstrap_servers, data)
    process.stop()
    assert "Traceback" not in process.log(), process.log()[-4000:]


def _create(peer: Peer, topic: str) -> None:
    configs = {
        "cleanup.policy": "delete",
        "internal.segment.bytes": "1500",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
        "retention.ms": "-1",
    }
    admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(30)
    wait_until_led(peer.bootstrap_servers, topic, 1)


def _set_policy(peer: Peer, topic: str, policy: str) -> None:
    admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers})
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    (changed,) = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
    ).values()
    changed.result(30)
    # Apache Kafka's broker applies the change after its controller has answered. Until then it cleans, or does not.
    deadline = time.monotonic() + 60
    while True:
        (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        if described.result(30)["cleanup.policy"].value == policy:
            return
        assert time.monotonic() < deadline, f"the policy of {topic} is not {policy}"
        time.sleep(0.02)


def _batches(seed: int, count: int) -> list[bytes]:
    """Returns batches of every codec with values, tombstones and headers; some are of idempotent producers."""
    random = Random(seed)
    sequences = dict.fromkeys((901, 902), 0)
    result = []
    for number in range(count):
        records: list[UnstampedRecord] = []
        for _ in range(random.randrange(1, 8)):
            key = b"key-%d" % random.randrange(KEYS)
            value = None if random.random() < 0.15 else random.randbytes(random.randrange(60))
            headers = [("h", b"x" * random.randrange(4))] if random.random() < 0.3 else []
            records.append((NOW_MS + number - random.randrange(5), key, value, headers))
        producer = random.choice([-1, 901, 902])
        is_idempotent = producer > 0
        result.append(
            encode_batch(
                records,
                compression=list(Compression)[number % 5],
                producer_id=producer,
                producer_epoch=seed if is_idempotent else -1,
                base_sequence=sequences[producer] if is_idempotent else -1,
            )
        )
        sequences[producer] = sequences.get(producer, 0) + len(records)
    return result


def _produce(peer: Peer, topic: str, batches: list[bytes]) -> None:
    with Wire(peer.bootstrap_servers) as wire:
        for batch in batches:
            request = ProduceRequest(None, -1, 30_000, [ProduceTopic(topic, None, [(0, memoryview(batch))])])
            answer = wire.produce(9, request).topics[0].partitions[0]
            assert answer.error_code == 0


def _produce_transactions(peer: Peer, topic: str, count: int) -> None:
    """Writes transactions with one record per batch, so that both brokers get the same batches; aborts every third
    one."""
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, "transactional.id": f"compaction-{topic}"})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for key in (number % 5, 100 + number % 3):
            producer.produce(topic, b"%d" % number, b"key-%d" % key, partition=0, timestamp=NOW_MS + number)
            producer.flush(30)
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    wait_until_transactions_ended(peer.bootstrap_servers, topic, 1)


def _wait_until_clean(peer: Peer, topic: str) -> None:
    """Waits until the cleaner has reached the active segment."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        active = max(int(path.stem) for path in (peer.data / f"{topic}-0").glob("*.log"))
        checkpoint = peer.data / "cleaner-offset-checkpoint"
        if checkpoint.exists() and f"{topic} 0 {active}" in checkpoint.read_text().splitlines():
            return
        time.sleep(0.05)
    raise TimeoutError(f"{topic} was not cleaned within two minutes")


def _survivors(peer: Peer, topic: str, isolation_level: str) -> Survivors:
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap_servers,
            "group.id": f"{topic}-readers",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Survivors = []
    while True:
        message: Message | None = consumer.poll(30)
        assert message is not None
        if message.error():
            break  # the end of the partition
        found.append(
            (message.offset(), message.key(), message.value(), message.timestamp()[1], message.headers() or [])
        )
    consumer.close()
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_both_cleaners_leave_the_same_records(kafka: Peer, klamm: Peer, seed: int) -> None:
    """Both cleaners keep the same offsets, keys, values, timestamps and headers in three cleanings; tombstones go in
    the second."""
    topic = f"{TOPIC}-{seed}"
    for peer in (kafka, klamm):
        _create(peer, topic)
    for cleaning in range(3):
        batches = _batches(10 * seed + cleaning, 60)
        for peer in (kafka, klamm):
            _set_policy(peer, topic, "delete")
            _produce(peer, topic, batches)
        before = _survivors(klamm, topic, "read_uncommitted")
        for peer in (kafka, klamm):
            _set_policy(peer, topic, "compact")
            _wait_until_clean(peer, topic)
        kept = _survivors(klamm, topic, "read_uncommitted")
        assert kept == _survivors(kafka, topic, "read_uncommitted")
        assert 0 < len(kept) < len(before)


def test_both_cleaners_leave_the_same_of_transactions(kafka: Peer, klamm: Peer) -> None:
    """Both cleaners keep the same records of transactions, for consumers of either isolation level."""
    topic = f"{TOPIC}-of-transactions"
    for peer in (kafka, klamm):
        _create(peer, topic)
    for _ in range(2):
        for peer in (kafka, klamm):
            _set_policy(peer, topic, "delete")
            _produce_transactions(peer, topic, 20)
            _set_policy(peer, topic, "compact")
            _wait_until_clean(peer, topic)
        for isolation_level in ("read_uncommitted", "read_committed"):
            kept = _survivors(klamm, topic, isolation_level)
            assert kept == _survivors(kafka, topic, isolation_level)
            assert kept


def test_kafka_dump_log_finds_nothing_wrong_with_cleaned_segments(klamm: Peer, kafka_classpath: str) -> None:
    """Kafka's DumpLogSegments reports no error in a cleaned log, its indexes and its transaction index, and finds each
    record."""
    topic = f"{TOPIC}-dumped"
    _create(klamm, topic)
    _produce(klamm, topic, _batches(5, 60))
    _produce_transactions(klamm, topic, 10)
    _produce(klamm, topic, _batches(6, 20))
    _set_policy(klamm, topic, "compact")
    _wait_until_clean(klamm, topic)
    folder = klamm.data / f"{topic}-0"
    files = [path for path in sorted(folder.iterdir()) if path.suffix in {".log", ".index", ".timeindex", ".txnindex"}]
    active = max(path.stem for path in files)
    cleaned = [path for path in files if path.stem != active]
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", kafka_classpath, "org.apache.kafka.tools.DumpLogSegments"]
    arguments = ["--deep-iteration", "--files", ",".join(map(str, cleaned))]
    dumped = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True, timeout=120).stdout
    assert not re.search(r"mismatch|Found|corrupt|Exception|not valid|isvalid: false", dumped, re.IGNORECASE), dumped
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", dumped, re.MULTILINE)]
    headers = [(int(first), int(last)) for first, last in re.findall(r"baseOffset: (\d+) lastOffset: (\d+) ", dumped)]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(headers))
    kept = {offset for offset, *_ in _survivors(klamm, topic, "read_uncommitted")}
    assert {offset for offset in kept if isinstance(offset, int) and offset < int(active)} <= set(offsets)
