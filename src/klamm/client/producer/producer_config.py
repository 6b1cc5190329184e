"""Producer configuration: the keys of Kafka's producer that klamm's producer honours.

Names, meanings, units and (unless noted otherwise) defaults are those of
`org.apache.kafka.clients.producer.ProducerConfig` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from klamm.client.config import ClientConfig
from klamm.client.errors import ClientConfigError
from klamm.protocol.compression import Compression

__all__ = ["PRODUCER_KEYS", "Acks", "PartitionerName", "ProducerConfig"]

Acks = Literal[-1, 0, 1]
PartitionerName = Literal["murmur2", "consistent_random"]

_LINGER_MS: Final = 5
_DELIVERY_TIMEOUT_MS: Final = 120_000
"""Kafka's defaults."""
_MOST_IN_FLIGHT: Final = 5
_ACKS: Final[Mapping[str, Acks]] = {"all": -1, "-1": -1, "0": 0, "1": 1}
_TRUTH: Final = {"true": True, "false": False}
_MAXIMUM_INT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """The settings of one producer. Raises `ClientConfigError` for values that exclude each other."""

    client: ClientConfig
    """How brokers are reached; the producer also takes its request timeout and its back-off from here."""
    acks: Acks = -1
    """-1 is all: every in-sync replica has the batch. 0: the broker does not answer."""
    enable_idempotence: bool = True
    """Needs `acks=-1`."""
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    compression: Compression = Compression.NONE
    """For batches made of single records; a finished batch keeps its codec."""
    compression_level: int | None = None
    batch_size_bytes: int = 131_072
    """Kafka's default is 16,384. In Python a batch takes more time than in Java."""
    linger_ms: int = _LINGER_MS
    buffer_memory_bytes: int = 33_554_432
    max_request_size_bytes: int = 1_048_576
    max_in_flight: int = 5
    """Unanswered Produce requests for each broker, and batches for each partition."""
    delivery_timeout_ms: int = _DELIVERY_TIMEOUT_MS
    max_block_ms: int = 60_000
    partitioner: PartitionerName = "murmur2"
    """`murmur2` is the default of Java's producer, `consistent_random` (CRC-32) that of librdkafka."""
    allow_auto_create_topics: bool = field(default=False)
    """Whether a broker may create a missing topic. Java's producer always allows it."""

    def __post_init__(self) -> None:
        if self.transactional_id is not None and not (self.enable_idempotence and self.acks == -1):
            raise ClientConfigError("transactional.id needs enable.idempotence=true and acks=all")
        if self.transactional_id == "":
            raise ClientConfigError("transactional.id is empty: give it a name, or leave it out")
        if self.enable_idempotence and self.acks != -1:
            raise ClientConfigError("enable.idempotence=true needs acks=all: set enable.idempotence=false for less")
        if self.max_in_flight < 1 or (self.enable_idempotence and self.max_in_flight > _MOST_IN_FLIGHT):
            raise ClientConfigError(
                f"max.in.flight.requests.per.connection={self.max_in_flight}: it lies between 1 and 5, since a broker "
                "remembers the last five batches of an idempotent producer"
            )
        if self.delivery_timeout_ms < self.linger_ms + self.client.request_timeout_ms:
            raise ClientConfigError(
                f"delivery.timeout.ms={self.delivery_timeout_ms} is less than linger.ms + request.timeout.ms="
                f"{self.linger_ms + self.client.request_timeout_ms}"
            )

    @classmethod
    def from_mapping(cls, options: Mapping[str, str]) -> ProducerConfig:
        """Returns the settings from Kafka's own keys and their text values, those of the client included.

        Raises `ClientConfigError`, whose text begins with the key and shows no secret, for an unknown key or an invalid
        value.
        """
        values: dict[str, Any] = {}
        for key, text in options.items():
            if key in _FIELDS:
                values[_FIELDS[key]] = _parse(key, text.strip())
        # As in Kafka, idempotence is off if other settings exclude it, unless it is set explicitly.
        if "enable.idempotence" not in options and values.get("acks", -1) != -1:
            values["enable_idempotence"] = False
        client = ClientConfig.from_mapping({key: text for key, text in options.items() if key not in _FIELDS})
        if "delivery.timeout.ms" not in options:  # Kafka raises the default too
            least = values.get("linger_ms", _LINGER_MS) + client.request_timeout_ms
            values["delivery_timeout_ms"] = max(_DELIVERY_TIMEOUT_MS, least)
        return cls(client=client, **values)


_FIELDS: Final[Mapping[str, str]] = {
    "acks": "acks",
    "allow.auto.create.topics": "allow_auto_create_topics",
    "batch.size": "batch_size_bytes",
    "buffer.memory": "buffer_memory_bytes",
    "compression.level": "compression_level",
    "compression.type": "compression",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "enable.idempotence": "enable_idempotence",
    "linger.ms": "linger_ms",
    "max.block.ms": "max_block_ms",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "max.request.size": "max_request_size_bytes",
    "partitioner": "partitioner",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "transactional.id": "transactional_id",
}

PRODUCER_KEYS: Final = frozenset(_FIELDS)
"""The producer's keys, in addition to those of `klamm.client.config.HONOURED_KEYS`."""


def _parse(key: str, text: str) -> Any:
    if key == "transactional.id":
        return text
    if key == "acks":
        if text not in _ACKS:
            raise ClientConfigError(f"acks={text}: it is all, 1 or 0")
        return _ACKS[text]
    if key == "compression.type":
        codec = {each.name.lower(): each for each in Compression}.get(text)
        if codec is None:
            raise ClientConfigError(f"compression.type={text}: it is none, gzip, snappy, lz4 or zstd")
        return codec
    if key == "partitioner":
        if text not in ("murmur2", "consistent_random"):
            raise ClientConfigError(f"partitioner={text}: it is murmur2 or consistent_random")
        return text
    if key in ("enable.idempotence", "allow.auto.create.topics"):
        if text.lower() not in _TRUTH:
            raise ClientConfigError(f"{key}={text}: it is true or false")
        return _TRUTH[text.lower()]
    try:
        number = int(text)
    except ValueError:
        raise ClientConfigError(f"{key}={text}: it is a whole number") from None
    if not 0 <= number <= _MAXIMUM_INT:
        raise ClientConfigError(f"{key}={text}: it lies between 0 and {_MAXIMUM_INT}")
    return number
