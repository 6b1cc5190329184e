"""Tests klamm's producer with three nodes of Apache Kafka, which are stopped and killed in turn: leaders and
coordinators move while records are on their way. `make faults` runs these tests, which take some minutes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.support.kafka_broker import KafkaUnavailable
from tests.support.kafka_cluster import KafkaCluster
from tests.support.toolchains import toolchain_is_missing

from klamm.client.config import ClientConfig
from klamm.client.producer.errors import TransactionMustAbort
from klamm.client.producer.outcome import Delivery
from klamm.client.producer.producer import BlockingProducer
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.transactions import OffsetToCommit
from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(600),
    pytest.mark.skipif("KLAMM_EXACTLY_ONCE_MATRIX" not in os.environ, reason="takes minutes: make faults"),
]

PARTITIONS = 6
PAUSE_S = 6
"""The time between a node's return and the end of the next one."""


@pytest.fixture(scope="module", params=[2, 1], ids=["second protocol", "first protocol"])
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Runs the nodes, with each of the two transaction protocols."""
    try:
        with KafkaCluster(int(request.param)) as running:
            yield running
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.fixture
def client(cluster: KafkaCluster) -> ClientConfig:
    """The configuration of a client of the cluster."""
    options = {"bootstrap.servers": cluster.bootstrap_servers, "request.timeout.ms": "10000"}
    return ClientConfig.from_mapping(options)


def create(cluster: KafkaCluster, name: str) -> str:
    """Creates a topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(60)
    return name


class Nemesis:
    """Ends each node twice, one after the other, in order and by SIGKILL; starts it again."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.is_done = threading.Event()

    def __enter__(self) -> Nemesis:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_done.wait()

    def _run(self) -> None:
        for number, node in enumerate(self._cluster.nodes * 2):
            time.sleep(PAUSE_S)
            if number % 2:
                node.kill()
            node.restart()
        self.is_done.set()
        self._cluster.is_over.wait()


def consumed(cluster: KafkaCluster, topic: str) -> list[list[int]]:
    """Returns the numbers in each partition, as librdkafka reads them with read_committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Place(topic, index, 0) for index in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None, "no records and no end for a minute"
        if message.error() is not None:
            at_end.add(message.partition() or 0)
        else:
            found[message.partition() or 0].append(int(message.value() or b""))
    consumer.close()
    return found


def test_each_record_is_written_once_and_in_order(cluster: KafkaCluster, client: ClientConfig) -> None:
    """All records of an idempotent producer are acknowledged, and are in their partition once and in order."""
    topic = create(cluster, "plain")
    deliveries: list[Delivery] = []
    with BlockingProducer(ProducerConfig(client, batch_size_bytes=2000)) as producer, Nemesis(cluster) as nemesis:
        while not nemesis.is_done.is_set():
            numbers = range(len(deliveries), len(deliveries) + 200)
            deliveries += [producer.send(topic, b"%d" % each, partition=each % PARTITIONS) for each in numbers]
            producer.poll(Millis(5))
        producer.flush()

    assert {str(delivery.error) for delivery in deliveries if delivery.error is not None} == set()
    assert consumed(cluster, topic) == [list(range(index, len(deliveries), PARTITIONS)) for index in range(PARTITIONS)]


def test_each_transaction_is_written_whole_or_not_at_all(cluster: KafkaCluster, client: ClientConfig) -> None:
    """Readers see the records of the committed transactions in order, and no others; offsets move with them."""
    topic = create(cluster, "in-transactions")
    config = ProducerConfig(client, transactional_id="x", batch_size_bytes=2000, max_block_ms=120_000)
    expected: list[list[int]] = [[] for _ in range(PARTITIONS)]
    number = last = 0
    with BlockingProducer(config) as producer, Nemesis(cluster) as nemesis:
        producer.init_transactions()
        while not nemesis.is_done.is_set():
            first = number
            producer.begin_transaction()
            try:
                for number in range(first, first + 100):
                    producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
                number += 1
                marker = {TopicPartition(topic, PartitionIndex(0)): OffsetToCommit(Offset(number))}
                producer.send_offsets(marker, "group")
                producer.commit_transaction()
            except TransactionMustAbort:
                producer.abort_transaction()
                number = first + 100
                continue
            last = number
            for index in range(PARTITIONS):
                expected[index] += [each for each in range(first, number) if each % PARTITIONS == index]

    assert consumed(cluster, topic) == expected
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "group"})
    (found,) = consumer.committed([Place(topic, 0)], timeout=30)
    consumer.close()
    assert found.offset == last
