"""Tests that Kafka's producer keys are honoured, and that conflicting settings are refused."""

from __future__ import annotations

import pytest

from klamm.client.config import ClientConfig
from klamm.client.errors import ClientConfigError
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.compression import Compression

SERVERS = {"bootstrap.servers": "one:9092"}


def test_keys_of_kafka_are_read() -> None:
    """One mapping holds the keys of the producer and of the client, as in Kafka."""
    config = ProducerConfig.from_mapping(
        SERVERS
        | {
            "acks": "all",
            "compression.type": "zstd",
            "compression.level": "7",
            "linger.ms": "20",
            "transactional.id": "tx",
            "client.id": "me",
            "partitioner": "consistent_random",
            "allow.auto.create.topics": "TRUE",
        }
    )
    assert config == ProducerConfig(
        ClientConfig((("one", 9092),), client_id="me"),
        compression=Compression.ZSTD,
        compression_level=7,
        linger_ms=20,
        transactional_id="tx",
        partitioner="consistent_random",
        allow_auto_create_topics=True,
    )


def test_fewer_acknowledgements_end_idempotence() -> None:
    """As in Kafka, `acks=1` alone gives a producer that is not idempotent."""
    assert ProducerConfig.from_mapping(SERVERS | {"acks": "1"}).enable_idempotence is False


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acks", "2"),
        ("compression.type", "brotli"),
        ("partitioner", "random"),
        ("enable.idempotence", "maybe"),
        ("linger.ms", "soon"),
        ("batch.size", "-1"),
        ("transactional.id", ""),
        ("max.in.flight.requests.per.connection", "6"),
        ("max.in.flight.requests.per.connection", "0"),
        ("delivery.timeout.ms", "1000"),
        ("no.such.key", "1"),
    ],
)
def test_a_value_that_is_none_is_refused_by_its_key(key: str, value: str) -> None:
    """An invalid value is refused with an error that names the key."""
    with pytest.raises(ClientConfigError, match=key.replace(".", r"\.")):
        ProducerConfig.from_mapping(SERVERS | {key: value})


def test_the_default_of_the_delivery_timeout_leaves_room_for_a_request() -> None:
    """As in Kafka, a long `request.timeout.ms` raises `delivery.timeout.ms`, unless that is set."""
    config = ProducerConfig.from_mapping(SERVERS | {"request.timeout.ms": "180000", "linger.ms": "7"})
    assert config.delivery_timeout_ms == 180_007
    assert ProducerConfig.from_mapping(SERVERS | {"request.timeout.ms": "1000"}).delivery_timeout_ms == 120_000


@pytest.mark.parametrize(
    "options", [{"enable.idempotence": "true", "acks": "1"}, {"transactional.id": "x", "acks": "0"}]
)
def test_settings_that_exclude_each_other_are_refused(options: dict[str, str]) -> None:
    """Idempotence and transactions need `acks=all`, and other values are refused."""
    with pytest.raises(ClientConfigError, match="acks=all"):
        ProducerConfig.from_mapping(SERVERS | options)
