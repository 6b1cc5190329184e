"""Tests klamm's blocking and asyncio producers over TLS and SASL: renewed sessions don't interrupt transactions, and a
wrong password ends the producer."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic
from tests.support.secure_kafka import SecureKafka, secure_kafka

from klamm.client.producer.aio_producer import AsyncProducer
from klamm.client.producer.errors import ProducerFailed
from klamm.client.producer.outcome import Delivery
from klamm.client.producer.producer import BlockingProducer
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.types import Offset

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

SESSIONS_S = 8
"""Several session lifetimes of SCRAM-SHA-512 at this broker."""

Produce = Callable[[ProducerConfig, str, float], list[Offset | None]]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with secure_kafka(tmp_path_factory.mktemp("certificates")) as running:
        yield running


@pytest.fixture
def topic(kafka: SecureKafka) -> str:
    name = f"secure-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": kafka.broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


def _blocking(config: ProducerConfig, topic: str, duration_s: float) -> list[Offset | None]:
    deliveries: list[Delivery] = []
    end = time.monotonic() + duration_s
    with BlockingProducer(config) as producer:
        producer.init_transactions()
        while not deliveries or time.monotonic() < end:
            producer.begin_transaction()
            # More bytes than the socket accepts at once.
            deliveries += [producer.send(topic, bytes(100_000), partition=0) for _ in range(20)]
            producer.commit_transaction()
    return [delivery.offset for delivery in deliveries]


def _asyncio(config: ProducerConfig, topic: str, duration_s: float) -> list[Offset | None]:
    async def run() -> list[Offset | None]:
        deliveries: list[Delivery] = []
        end = time.monotonic() + duration_s
        async with AsyncProducer(config) as producer:
            await producer.init_transactions()
            while not deliveries or time.monotonic() < end:
                await producer.begin_transaction()
                deliveries += [await producer.send(topic, bytes(100_000), partition=0) for _ in range(20)]
                await producer.commit_transaction()
        return [delivery.offset for delivery in deliveries]

    return asyncio.run(run())


both_faces = pytest.mark.parametrize("produce", [_blocking, _asyncio])


def _is_rising(offsets: list[Offset | None]) -> bool:
    known = [offset for offset in offsets if offset is not None]
    return len(known) == len(offsets) and known == sorted(set(known))


@both_faces
def test_tls(kafka: SecureKafka, topic: str, produce: Produce) -> None:
    """A producer writes transactions through TLS, and its records get rising offsets."""
    config = ProducerConfig.from_mapping(kafka.options("TLS") | {"transactional.id": topic})
    assert _is_rising(produce(config, topic, 0))


def _send_blocking(config: ProducerConfig, topic: str, count: int) -> None:
    with BlockingProducer(config) as producer:
        for _ in range(count):
            producer.send(topic, bytes(100_000), partition=0)


def _send_asyncio(config: ProducerConfig, topic: str, count: int) -> None:
    async def run() -> None:
        async with AsyncProducer(config) as producer:
            for _ in range(count):
                await producer.send(topic, bytes(100_000), partition=0)

    asyncio.run(run())


@pytest.mark.parametrize("send", [_send_blocking, _send_asyncio])
def test_tls_without_acknowledgements(
    kafka: SecureKafka, topic: str, send: Callable[[ProducerConfig, str, int], None]
) -> None:
    """With acks=0, the producer closes a connection only after the socket has accepted all encrypted bytes."""
    admin = AdminClient({"bootstrap.servers": kafka.broker.bootstrap_servers})
    first = TopicPartition(topic, 0)
    deadline = time.monotonic() + 60

    def wait_for_end_offset(expected: int) -> None:
        """Waits until the partition's leader serves the partition, and the partition ends at this offset."""
        found: object = None
        while found != expected:
            assert time.monotonic() < deadline, f"the partition ends at {found}"
            answer = admin.list_offsets({first: OffsetSpec.latest()})[first]
            found = answer.exception(60) or answer.result().offset

    wait_for_end_offset(0)  # records that are sent before the leader serves the partition are lost
    send(ProducerConfig.from_mapping(kafka.options("TLS") | {"acks": "0", "enable.idempotence": "false"}), topic, 200)
    wait_for_end_offset(200)


@both_faces
@pytest.mark.parametrize("listener", ["SASL_TLS", "SASL"])
def test_a_session_that_ends_is_renewed(kafka: SecureKafka, topic: str, produce: Produce, listener: str) -> None:
    """Transactions continue while the broker ends the sessions of connections that don't authenticate again
    (KIP-368)."""
    options = kafka.sasl_options(listener, "SCRAM-SHA-512") | {"transactional.id": topic}
    assert _is_rising(produce(ProducerConfig.from_mapping(options), topic, SESSIONS_S))


@both_faces
def test_a_wrong_password_ends_the_producer(kafka: SecureKafka, topic: str, produce: Produce) -> None:
    """A wrong password ends the producer, and the error names the user and the mechanism."""
    options = kafka.sasl_options("SASL", "SCRAM-SHA-512", "wrong") | {"transactional.id": topic}
    with pytest.raises(ProducerFailed, match=r"does not accept 'alice' with sasl\.mechanism=SCRAM-SHA-512"):
        produce(ProducerConfig.from_mapping(options), topic, 0)
