"""Checks whether the settings of a topic, a group, a broker or a metrics subscription are valid together.

Each function raises KafkaError with the code and the message of Kafka's response. Sources: `LogConfig.validate`,
`GroupConfig.validate`, `DynamicBrokerConfig.validateConfigs`, `ClientMetricsConfigs.validate` of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from klamm.config.broker_config import BrokerConfig
from klamm.config.errors import ConfigurationError, InvalidValue
from klamm.config.key_support import KeySupport
from klamm.config.layers import BrokerLayers
from klamm.config.resolve import check_cleaner_bounds, check_group_bounds, resolve_topic_defaults
from klamm.config.table import ConfigKey, broker_keys, client_metrics_keys, group_keys_with, group_synonyms, topic_keys
from klamm.config.topic_config import TopicConfig
from klamm.config.values import Value
from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = [
    "validate_broker_configs",
    "validate_client_metrics_configs",
    "validate_group_configs",
    "validate_topic_configs",
]

# Group keys with bounds in the broker's keys `group.<protocol>.min.<rest>` and `group.<protocol>.max.<rest>`.
_BOUNDED_GROUP_KEYS: Final = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.assignment.interval.ms",
)
_GROUP_PROTOCOLS: Final = ("consumer", "share", "streams")
_CLIENT_MATCHES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
# Kafka can change its listeners while it runs; klamm opens them only at the start.
_SET_AT_START: Final = frozenset({"listeners", "listener.security.protocol.map"})
_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


def validate_topic_configs(configs: Mapping[str, str], defaults: TopicConfig | None = None) -> None:
    """Checks `configs`, all settings of a topic, together with `defaults`. Raises INVALID_CONFIG."""
    keys = topic_keys()
    for name in configs:
        if name not in keys:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    _parse(configs, keys)
    config = TopicConfig.from_mapping(configs, defaults)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})",
        )
    if configs.get("remote.storage.enable", "").strip().lower() == "true":
        reason = "Tiered Storage functionality is disabled in the broker."
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{reason} Topic cannot be configured with remote log storage.")


def validate_group_configs(configs: Mapping[str, str], broker: Mapping[str, Value]) -> None:
    """Checks `configs`, all settings of a group; `broker` has the value of each broker key. Raises INVALID_CONFIG."""
    keys = group_keys_with(configs)
    for name in configs:
        if name not in keys:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    values = {name: broker[synonym] for name, synonym in group_synonyms().items()} | _parse(configs, keys)

    def number(value: Value) -> int:
        assert isinstance(value, int)
        return value

    for name in _BOUNDED_GROUP_KEYS:
        # Kafka checks this key only if it is set on the group itself.
        if name.endswith("assignment.interval.ms") and name not in configs:
            continue
        protocol, _, rest = name.partition(".")
        lowest = f"group.{protocol}.min.{rest}"
        highest = f"group.{protocol}.max.{rest.removeprefix('num.')}"
        # The number of standby replicas has no broker key for a lower bound.
        if lowest in broker and number(values[name]) < number(broker[lowest]):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {lowest}")
        if number(values[name]) > number(broker[highest]):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {highest}")
    for protocol in _GROUP_PROTOCOLS:
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if number(values[session]) <= number(values[heartbeat]):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def validate_broker_configs(
    configs: Mapping[str, str], config: BrokerConfig, layers: BrokerLayers, *, per_broker: bool
) -> None:
    """Checks `configs`, all settings on a running broker or for the cluster.

    `layers` are the current ones. An unknown key is accepted, because Kafka stores unknown keys for plugins. Raises
    INVALID_REQUEST, as Kafka does in this case.
    """
    keys = broker_keys()
    fixed = [name for name in configs if name in keys and (not keys[name].is_dynamic or name in _SET_AT_START)]
    _refuse("Cannot update these configs dynamically", fixed)
    for name, text in configs.items():
        listener_key = _LISTENER_KEY.fullmatch(name) if name.startswith("listener.name.") else None
        key = keys.get(listener_key[1] if listener_key else name)
        if key is None:
            continue
        try:
            value = key.parse(text)
        except InvalidValue as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
        if key.support is KeySupport.REFUSED and value != key.default_value():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is refused. {key.reason}")
    if not per_broker:
        single = [
            name
            for name in configs
            if (name in keys and keys[name].update_mode == "per-broker") or _LISTENER_KEY.fullmatch(name)
        ]
        _refuse("Cannot update these configs at default cluster level, broker id must be specified", single)
    _check_cordoned_log_dirs(keys["cordoned.log.dirs"].parse(configs.get("cordoned.log.dirs", "")), config)
    changed = BrokerLayers(
        config.explicit, layers.cluster if per_broker else configs, configs if per_broker else layers.broker
    )
    values = changed.values()
    try:
        resolve_topic_defaults(values)
        check_cleaner_bounds(values)
        check_group_bounds(values)
    except ConfigurationError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
    _check_cleaner_threads(config.log_cleaner_threads, values["log.cleaner.threads"])


def _check_cordoned_log_dirs(wanted: Value, config: BrokerConfig) -> None:
    """Allows `*`, or the log directory as it is configured or as DescribeLogDirs shows it (KIP-1066)."""
    assert isinstance(wanted, tuple)
    if "*" in wanted:
        if len(wanted) > 1:
            reason = "When cordoned.log.dirs is set to *, it must not contain other values"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"requirement failed: {reason}")
        return
    folder = config.data_directory
    missing = [each for each in wanted if each not in (str(folder), str(folder.absolute()))]
    if missing:
        reason = "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"requirement failed: {reason}{', '.join(missing)}")


def _check_cleaner_threads(current: int, wanted: Value) -> None:
    """Refuses fewer than half or more than double the current cleaner threads, as Kafka does."""
    assert isinstance(wanted, int)
    reason = None
    if wanted < current // 2:
        reason = f"reduced to less than half the current value {current}"
    elif wanted > current * 2:
        reason = f"increased to more than double the current value {current}"
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Log cleaner threads cannot be {reason}")


def validate_client_metrics_configs(name: str, configs: Mapping[str, str]) -> None:
    """Checks the settings of a subscription to clients' metrics. Raises INVALID_REQUEST or INVALID_CONFIG."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    keys = client_metrics_keys()
    for key in configs:
        if key not in keys:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    values = _parse(configs, keys)
    interval = values.get("interval.ms")
    if isinstance(interval, int) and not 100 <= interval <= 3_600_000:
        reason = f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
    matches = values.get("match") or ()
    assert isinstance(matches, tuple)
    for match in matches:
        parameter, *pattern = match.split("=")
        if len(pattern) != 1 or parameter.strip() not in _CLIENT_MATCHES:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {match}")


def _parse(configs: Mapping[str, str], keys: Mapping[str, ConfigKey]) -> dict[str, Value]:
    try:
        return {name: keys[name].parse(text) for name, text in configs.items()}
    except InvalidValue as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _refuse(reason: str, names: Collection[str]) -> None:
    if names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{reason}: [{', '.join(sorted(names))}]")
