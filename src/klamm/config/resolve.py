"""Resolves single settings into the configuration of a broker, and checks that they are consistent.

Pure. The rules are from Kafka's `KafkaConfig.validateValues`; a few more refuse what a single node can't do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from klamm.config.broker_config import CONSUMER_ASSIGNORS, BrokerConfig
from klamm.config.errors import ConfigurationError
from klamm.config.listeners import Listener, parse_listener
from klamm.config.table import broker_keys, topic_synonyms
from klamm.config.topic_config import TopicConfig
from klamm.config.values import Value

__all__ = ["check_cleaner_bounds", "check_group_bounds", "resolve_fields", "resolve_topic_defaults"]

Values = Mapping[str, Value]

# Fields that are not simply the value of their key.
_COMPOSED: Final = frozenset(
    {
        "node_id",
        "listeners",
        "advertised_listeners",
        "inter_broker_listener_name",
        "log_dirs",
        "topic_defaults",
        "explicit",
        "klamm_cluster_id",
        "group_consumer_assignors",
    }
)
_COMPRESSION_CODECS: Final = range(5)

_LEAST_CLEANER_BYTES: Final = 1024 * 1024

_GROUP_PROTOCOLS: Final = ("consumer", "share", "streams")
_BOUNDED: Final = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")

_REPLICA_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

# The names of Kafka's own classes are accepted in place of the assignors' names.
_ASSIGNOR_CLASSES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


def resolve_fields(values: Values) -> dict[str, Any]:
    """Returns the fields of `BrokerConfig` for `values` (the keys that were set).

    Raises ConfigurationError if values contradict each other, or require something that this broker can't do. The
    message begins with the key at fault.
    """
    _check_roles(values)
    _check_cordoned(values)
    _check_replica_selector(values)
    result: dict[str, Any] = {
        "node_id": _node_id(values),
        "log_dirs": (_data_directory(values),),
        "topic_defaults": resolve_topic_defaults(values),
        "klamm_cluster_id": values.get("klamm.cluster.id"),
    }
    result["listeners"], result["advertised_listeners"] = _listeners(values)
    result["inter_broker_listener_name"] = _inter_broker_listener(values, result["listeners"])
    for field in fields(BrokerConfig):
        key = field.name.replace("_", ".")
        if field.name not in _COMPOSED and key in values:
            result[field.name] = values[key]
    if "group.consumer.assignors" in values:
        result["group_consumer_assignors"] = _consumer_assignors(values)
    _check_limits(values)
    check_cleaner_bounds(values)
    check_group_bounds(values)
    if "classic" not in (_names(values, "group.coordinator.rebalance.protocols") or ("classic",)):
        raise ConfigurationError("group.coordinator.rebalance.protocols must contain classic, which can't be disabled")
    return result


def resolve_topic_defaults(values: Values) -> TopicConfig:
    """Returns the defaults of topics. Raises ConfigurationError as `resolve_fields`."""
    synonyms = topic_synonyms()
    changes: dict[str, Any] = {}
    for field in fields(TopicConfig):
        for key, factor in synonyms.get(field.name.replace("_", "."), ()):
            value = values.get(key)
            if value is not None:
                changes[field.name] = frozenset(value) if isinstance(value, tuple) else _scaled(value, factor)
                break
    config = TopicConfig(**changes)
    if config.segment_ms < 1:
        raise ConfigurationError("log.roll.ms must be greater than or equal to 1")
    if config.segment_jitter_ms < 0:
        raise ConfigurationError("log.roll.jitter.ms must be greater than or equal to 0")
    if config.retention_ms == 0:
        raise ConfigurationError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigurationError(
            f"log.cleaner.min.compaction.lag.ms ({config.min_compaction_lag_ms}) must not be greater than "
            f"log.cleaner.max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
    if config.retention_ms < 0:
        changes["retention_ms"] = -1
    return TopicConfig(**changes)


def _scaled(value: Value, factor: int) -> Value:
    return value * factor if isinstance(value, int) and factor != 1 else value


def _names(values: Values, key: str) -> tuple[str, ...]:
    value = values.get(key)
    assert value is None or isinstance(value, tuple)
    return value or ()


def _check_roles(values: Values) -> None:
    if "broker" not in _names(values, "process.roles"):
        raise ConfigurationError("process.roles must contain broker: there is no process that is a controller only")


def _check_cordoned(values: Values) -> None:
    # Placement reads the metadata store, which has the settings of running brokers only.
    if _names(values, "cordoned.log.dirs"):
        raise ConfigurationError(
            "cordoned.log.dirs must be set for a running broker, not at its start: use kafka-configs with "
            "--entity-type brokers, or klamm cluster decommission"
        )


def _check_replica_selector(values: Values) -> None:
    if values.get("replica.selector.class") not in (None, "", _REPLICA_SELECTOR):
        raise ConfigurationError(
            f"replica.selector.class must be {_REPLICA_SELECTOR}, or be left out: no other class can be loaded"
        )


def _node_id(values: Values) -> Value:
    node_id = values.get("node.id", values.get("broker.id"))
    if values.get("broker.id", node_id) != node_id:
        raise ConfigurationError("node.id must have the same value as broker.id where both are set")
    return node_id


def _data_directory(values: Values) -> Path:
    key = "log.dirs" if _names(values, "log.dirs") else "log.dir"
    directories = _names(values, key)
    if len(directories) != 1:
        raise ConfigurationError(f"{key} must name one folder: everything is stored in one, not in {len(directories)}")
    return Path(directories[0])


def _listeners(values: Values) -> tuple[tuple[Listener, ...], tuple[Listener, ...]]:
    controllers = {name.upper() for name in _names(values, "controller.listener.names")}
    listeners = _parse_listeners(values, "listeners", controllers)
    if not listeners:
        raise ConfigurationError("listeners must contain one that is not a controller's")
    _check_protocols(values, listeners)
    advertised = {listener.name: listener for listener in _parse_listeners(values, "advertised.listeners", controllers)}
    if not advertised:
        return listeners, ()
    names = [listener.name for listener in listeners]
    if set(advertised) != set(names):
        raise ConfigurationError(
            f"advertised.listeners must name the same listeners as listeners: {', '.join(names)}, "
            f"not {', '.join(advertised)}"
        )
    for listener in advertised.values():
        if listener.is_wildcard:
            raise ConfigurationError(f"advertised.listeners must name a host that clients can reach, unlike {listener}")
    return listeners, tuple(advertised[name] for name in names)


def _inter_broker_listener(values: Values, listeners: tuple[Listener, ...]) -> str:
    """Returns the name of the listener through which brokers talk: the named one, or the one named by its protocol.

    Kafka refuses the start if neither listener exists. Here, a broker with a single listener takes that one unless a
    key names another.
    """
    name, protocol = values.get("inter.broker.listener.name"), values.get("security.inter.broker.protocol")
    if name is not None and protocol is not None:
        raise ConfigurationError(
            "inter.broker.listener.name and security.inter.broker.protocol must not both be set: only one of them can "
            "name the listener"
        )
    if protocol not in (None, "PLAINTEXT"):
        raise ConfigurationError(f"security.inter.broker.protocol must be PLAINTEXT: {protocol} is not served so far")
    wanted = str(name or protocol or "PLAINTEXT").upper()
    names = [listener.name for listener in listeners]
    if wanted in names:
        return wanted
    if name is None and protocol is None and len(names) == 1:
        return names[0]
    raise ConfigurationError(
        f"inter.broker.listener.name must be one of the listeners {', '.join(names)}, not {wanted}"
    )


def _parse_listeners(values: Values, key: str, controllers: set[str]) -> tuple[Listener, ...]:
    try:
        listeners = [parse_listener(text) for text in _names(values, key)]
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {error}") from None
    if len({listener.name for listener in listeners}) != len(listeners):
        raise ConfigurationError(f"{key}: each listener must have a different name")
    return tuple(listener for listener in listeners if listener.name not in controllers)


def _check_protocols(values: Values, listeners: tuple[Listener, ...]) -> None:
    text = values.get("listener.security.protocol.map")
    protocols = {}
    for entry in str(text).split(",") if text else ():
        name, _, protocol = entry.partition(":")
        protocols[name.strip().upper()] = protocol.strip().upper()
    for listener in listeners:
        protocol = protocols.get(listener.name, listener.name)
        if protocol in {"SSL", "SASL_SSL", "SASL_PLAINTEXT"}:
            raise ConfigurationError(f"listeners: {listener} asks for {protocol}; only PLAINTEXT is served so far")
        if protocol != "PLAINTEXT":
            raise ConfigurationError(
                f"listeners: {listener} has no protocol; say which in listener.security.protocol.map, "
                f"as {listener.name}:PLAINTEXT"
            )


def _check_limits(values: Values) -> None:
    def number(key: str, default: int) -> int:
        value = values.get(key, default)
        assert isinstance(value, int)
        return value

    queued = number("queued.max.request.bytes", -1)
    request = number("socket.request.max.bytes", BrokerConfig().socket_request_max_bytes)
    # klamm's own default must not lead to a refusal of larger requests: a single request may exceed the limit.
    if 0 < queued < request and queued != BrokerConfig().queued_max_request_bytes:
        raise ConfigurationError(f"queued.max.request.bytes must be at least socket.request.max.bytes ({request})")
    if number("max.connections.per.ip", 1) == 0:
        raise ConfigurationError("max.connections.per.ip must be at least 1: there are no overrides for single hosts")
    if number("offsets.topic.compression.codec", 0) not in _COMPRESSION_CODECS:
        raise ConfigurationError("offsets.topic.compression.codec must be 0 none, 1 gzip, 2 snappy, 3 lz4 or 4 zstd")


def check_cleaner_bounds(values: Values) -> None:
    """Checks that the cleaner has threads, and memory for each. Raises ConfigurationError as `resolve_fields`."""
    defaults = BrokerConfig()
    threads = values.get("log.cleaner.threads", defaults.log_cleaner_threads)
    memory_bytes = values.get("log.cleaner.dedupe.buffer.size", defaults.log_cleaner_dedupe_buffer_size)
    assert isinstance(threads, int)
    assert isinstance(memory_bytes, int)
    if threads < 1:
        raise ConfigurationError("log.cleaner.threads must be at least 1: log.cleaner.enable=false stops the cleaner")
    if memory_bytes // threads <= _LEAST_CLEANER_BYTES:
        raise ConfigurationError("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")


def check_group_bounds(values: Values) -> None:
    """Checks that the defaults of groups are within the bounds for single groups, and that sessions outlast heartbeats.

    Apache Kafka's `GroupCoordinatorConfig` makes these checks when a broker starts, with the same messages. Raises
    ConfigurationError.
    """
    keys = broker_keys()

    def number(name: str) -> int:
        value = values[name] if name in values else keys[name].default_value()
        assert isinstance(value, int)
        return value

    for protocol in _GROUP_PROTOCOLS:
        for rest in _BOUNDED:
            name, lowest, highest = (f"group.{protocol}.{part}{rest}" for part in ("", "min.", "max."))
            if number(highest) < number(lowest):
                raise ConfigurationError(f"{highest} must be greater than or equal to {lowest}")
            if number(name) < number(lowest):
                raise ConfigurationError(f"{name} must be greater than or equal to {lowest}")
            if number(name) > number(highest):
                raise ConfigurationError(f"{name} must be less than or equal to {highest}")
        heartbeat, session = f"group.{protocol}.heartbeat.interval.ms", f"group.{protocol}.session.timeout.ms"
        if number(heartbeat) >= number(session):
            raise ConfigurationError(f"{heartbeat} must be less than {session}")
    standby, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if number(standby) > number(most):
        raise ConfigurationError(f"{standby} must be less than or equal to {most}")


def _consumer_assignors(values: Values) -> tuple[str, ...]:
    names = [_ASSIGNOR_CLASSES.get(name, name) for name in _names(values, "group.consumer.assignors")]
    unknown = [name for name in names if name not in CONSUMER_ASSIGNORS]
    if unknown:
        known = ", ".join(CONSUMER_ASSIGNORS)
        raise ConfigurationError(
            f"group.consumer.assignors must name assignors among {known}, not {', '.join(unknown)}"
        )
    return tuple(dict.fromkeys(names))
