"""The options that begin with `kafka.`: Kafka's consumer configuration. Each key is honoured, refused, or has no effect
and causes a warning."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from klamm.client.config import HONOURED_KEYS, ClientConfig, is_security_key
from klamm.client.errors import ClientConfigError
from klamm.spark.source.errors import OptionError

__all__ = ["KAFKA_PREFIX", "parse_kafka_options"]

_logger = logging.getLogger(__name__)

KAFKA_PREFIX: Final = "kafka."

# Refused with Spark's texts, except for the second part of the last two, which is advice for this source only.
_REFUSED_AS_IN_SPARK: Final = {
    "auto.offset.reset": "Kafka option 'auto.offset.reset' is not supported. Instead set the source option "
    "'startingoffsets' to 'earliest' or 'latest' to specify where to start. Structured Streaming manages which offsets "
    "are consumed internally, rather than relying on the kafkaConsumer to do it. This will ensure that no data is "
    "missed when new topics/partitions are dynamically subscribed. Note that 'startingoffsets' only applies when a new "
    "Streaming query is started, and that resuming will always pick up from where the query left off.",
    "key.deserializer": "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays with "
    "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys.",
    "value.deserializer": "Kafka option 'value.deserializer' is not supported as values are deserialized as byte "
    "arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the values.",
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported: set 'kafka.group.id', and each finished "
    "micro-batch is committed to that group",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported: interceptors are Java classes that "
    "may change records",
}
# Consumer configuration without a meaning for a reader that uses no Java consumer.
_CONSUMER_KEYS_WITHOUT_EFFECT: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "client.rack",
        "config.providers",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
    }
)


def parse_kafka_options(given: Mapping[str, str]) -> tuple[ClientConfig, str | None]:
    """Parses the client's settings and the group to commit to from a query's options, whose keys are in lower case.

    Raises `OptionError`.
    """
    passed: dict[str, str] = {}
    group_id = None
    for option, value in given.items():
        key = option.removeprefix(KAFKA_PREFIX)
        if key == option:
            continue
        if key == "group.id":
            if not value:
                raise OptionError("kafka.group.id is empty")
            group_id = value
        elif key in HONOURED_KEYS or is_security_key(key):
            passed[key] = value
        elif key in _REFUSED_AS_IN_SPARK:
            raise OptionError(_REFUSED_AS_IN_SPARK[key])
        elif key in _CONSUMER_KEYS_WITHOUT_EFFECT:
            _logger.warning("Kafka option %r has no effect: the source has no Java consumer inside", key)
        else:
            raise OptionError(f"unknown Kafka option '{key}': it is no configuration key of Kafka's consumer")
    if "bootstrap.servers" not in passed:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    try:
        return ClientConfig.from_mapping(passed), group_id
    except ClientConfigError as error:
        raise OptionError(f"{KAFKA_PREFIX}{error}") from None
