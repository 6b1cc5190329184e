"""The options that begin with `kafka.`: Kafka's producer configuration. Each key is honoured, refused, or has no effect
and causes a warning."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Final

from klamm.client.config import is_security_key
from klamm.client.errors import ClientConfigError
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.compression import Compression
from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.kafka_options import KAFKA_PREFIX
from klamm.spark.source.options.option_values import parse_truth

__all__ = ["HONOURED_PRODUCER_KEYS", "parse_producer_options"]

_logger = logging.getLogger(__name__)

_CLIENT_KEYS: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.ms",
    }
)
_PRODUCER_KEYS: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
    }
)
# Lowest and highest level, and the number that stands for the codec's default.
_LEVELS: Final[Mapping[Compression, tuple[int, int, int | None]]] = {
    Compression.GZIP: (1, 9, -1),
    Compression.ZSTD: (-131_072, 22, None),
}
_LEVEL_KEYS: Final[Mapping[str, Compression]] = {f"compression.{codec.name.lower()}.level": codec for codec in _LEVELS}
_IGNORE_KEYS: Final = "partitioner.ignore.keys"

HONOURED_PRODUCER_KEYS: Final = _CLIENT_KEYS | _PRODUCER_KEYS | _LEVEL_KEYS.keys() | {_IGNORE_KEYS}
"""Kafka's keys that have an effect here, in addition to those that begin with `ssl.` or `sasl.`."""

# The first two have Spark's texts.
_REFUSED: Final = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": "Kafka option 'value.serializer' is not supported as value are serialized with "
    "ByteArraySerializer.",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported: interceptors are Java classes, and "
    "there is no Java producer in the sink",
    "partitioner.class": "Kafka option 'partitioner.class' is not supported: it names a Java class. Set "
    "klamm.partitioner to murmur2 (Java's default) or consistent_random (librdkafka's default), or give the DataFrame "
    "a column 'partition'",
    "transactional.id": "Kafka option 'transactional.id' is not supported: with klamm.sink.semantics=exactly-once the "
    "sink derives it from the query's id, and without it the sink writes without transactions",
    "transaction.two.phase.commit.enable": "Kafka option 'transaction.two.phase.commit.enable' is not supported: the "
    "sink commits its transactions in one phase, if it writes any",
}
_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
# Producer configuration without a meaning for a writer that uses no Java producer.
_PRODUCER_KEYS_WITHOUT_EFFECT: Final = frozenset(
    {
        "client.dns.lookup",
        "compression.lz4.level",
        "config.providers",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "linger.ms",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
        _TRANSACTION_TIMEOUT,
    }
)


def parse_producer_options(given: Mapping[str, str], *, is_exactly_once: bool) -> tuple[ProducerConfig, bool]:
    """Parses the producer's settings from a writer's options, whose keys are in lower case.

    `is_exactly_once` says that the driver writes in transactions. The second result is `partitioner.ignore.keys`.
    Raises `OptionError`.
    """
    passed_keys = _CLIENT_KEYS | _PRODUCER_KEYS | ({_TRANSACTION_TIMEOUT} if is_exactly_once else set())
    passed: dict[str, str] = {}
    levels: dict[Compression, int | None] = {}
    ignores_keys = False
    for option, value in given.items():
        key = option.removeprefix(KAFKA_PREFIX)
        if key == option:
            continue
        if key in passed_keys or is_security_key(key):
            passed[key] = value
        elif key in _LEVEL_KEYS:
            levels[_LEVEL_KEYS[key]] = _parse_level(option, value, _LEVEL_KEYS[key])
        elif key == _IGNORE_KEYS:
            ignores_keys = parse_truth(option, value)
        elif key in _REFUSED:
            raise OptionError(_REFUSED[key])
        elif key in _PRODUCER_KEYS_WITHOUT_EFFECT:
            _logger.warning("Kafka option %r has no effect: the sink has no Java producer inside", key)
        else:
            raise OptionError(f"unknown Kafka option '{key}': it is no configuration key of Kafka's producer")
    if "bootstrap.servers" not in passed:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    # As with Java's producer, the broker decides whether a missing topic is created (auto.create.topics.enable).
    passed["allow.auto.create.topics"] = "true"
    try:
        config = ProducerConfig.from_mapping(passed)
    except ClientConfigError as error:
        raise OptionError(f"{KAFKA_PREFIX}{error}") from None
    if is_exactly_once and not (config.acks == -1 and config.enable_idempotence):
        raise OptionError(
            "klamm.sink.semantics=exactly-once writes in transactions, which need kafka.acks=all and "
            "kafka.enable.idempotence=true"
        )
    return dataclasses.replace(config, compression_level=levels.get(config.compression)), ignores_keys


def _parse_level(option: str, text: str, codec: Compression) -> int | None:
    """Parses the level of a codec; None is the codec's default."""
    lowest, highest, default = _LEVELS[codec]
    try:
        level = int(text.strip())
    except ValueError:
        level = None
    if level is not None and level == default:
        return None
    if level is None or not lowest <= level <= highest:
        raise OptionError(f"{option}={text}: it is a whole number from {lowest} to {highest}")
    return level
