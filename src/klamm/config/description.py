"""Builds the DescribeConfigs entries of a resource: each key with its value, the value's source, and its synonyms.

Pure. Source: `ConfigHelper` of Apache Kafka 4.3. An internal key is left out unless it is set. An unknown key that is
set is shown without its value, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from klamm.config.errors import InvalidValue
from klamm.config.layers import BrokerLayers, ConfigSource, Synonym
from klamm.config.table import (
    ConfigKey,
    broker_keys,
    client_metrics_keys,
    group_keys_with,
    group_synonyms,
    topic_keys,
    topic_synonyms,
)
from klamm.config.values import Value, value_text

__all__ = [
    "ConfigEntry",
    "describe_broker",
    "describe_client_metrics",
    "describe_cluster_default",
    "describe_group",
    "describe_topic",
]

_TYPE_IDS: Final = {
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}
_UNKNOWN_TYPE: Final = 0


class ConfigEntry(NamedTuple):
    """One key of a resource. `value` is None if the key has no value, or if the value must not be shown."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: list[Synonym]
    type_id: int
    documentation: str | None


def describe_topic(overrides: Mapping[str, str], layers: BrokerLayers) -> list[ConfigEntry]:
    """Returns all keys of a topic on which `overrides` are set."""
    values = layers.values()
    broker_names = topic_synonyms()

    def default(key: ConfigKey) -> Value:
        for name, factor in broker_names.get(key.name, ()):
            value = values.get(name)
            if value is not None:
                return _in_topic_units(key.name, value, factor)
        return key.default_value()

    def synonyms(key: ConfigKey) -> list[Synonym]:
        names = broker_names.get(key.name)
        return layers.synonyms(names[0][0]) if names else []

    return _describe(topic_keys(), overrides, ConfigSource.TOPIC, default, synonyms)


def describe_group(overrides: Mapping[str, str], layers: BrokerLayers) -> list[ConfigEntry]:
    """Returns all keys of a group on which `overrides` are set (KIP-848, KIP-1240)."""
    values = layers.values()
    broker_names = group_synonyms()

    def default(key: ConfigKey) -> Value:
        name = broker_names.get(key.name)
        return key.default_value() if name is None else values[name]

    def synonyms(key: ConfigKey) -> list[Synonym]:
        name = broker_names.get(key.name)
        if name is not None:
            return layers.synonyms(name)
        return [] if key.default is None else [Synonym(key.name, key.default, ConfigSource.DEFAULT)]

    return _describe(group_keys_with(overrides), overrides, ConfigSource.GROUP, default, synonyms)


def describe_client_metrics(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Returns all keys of a subscription to clients' metrics (KIP-714)."""
    return _describe(
        client_metrics_keys(), overrides, ConfigSource.CLIENT_METRICS, ConfigKey.default_value, lambda key: []
    )


def describe_broker(layers: BrokerLayers) -> list[ConfigEntry]:
    """Returns all keys of a broker."""
    values = layers.values()
    set_keys = layers.merged()
    names = {name for name, key in broker_keys().items() if not key.is_internal and not key.is_dynamic_only}
    return _broker_entries(
        sorted(names.union(set_keys, layers.cluster, layers.broker)), values, layers, lambda synonym: True
    )


def describe_cluster_default(layers: BrokerLayers) -> list[ConfigEntry]:
    """Returns the keys that are set as the default for all brokers of the cluster."""
    keys = broker_keys()
    values = {name: keys[name].parse(text) for name, text in layers.cluster.items() if name in keys}
    return _broker_entries(
        sorted(layers.cluster), values, layers, lambda synonym: synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
    )


def _in_topic_units(name: str, value: Value, factor: int) -> Value:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    # Any negative log.retention means no limit; a topic has only -1 for that.
    return -1 if name == "retention.ms" and value < 0 else value * factor


def _broker_entries(
    names: Iterable[str], values: Mapping[str, Value], layers: BrokerLayers, is_shown: Callable[[Synonym], bool]
) -> list[ConfigEntry]:
    keys = broker_keys()
    entries = []
    for name in names:
        key = keys.get(name)
        synonyms = [synonym for synonym in layers.synonyms(name) if is_shown(synonym)]
        entries.append(
            ConfigEntry(
                name,
                None if key is None or key.is_sensitive else value_text(values.get(name)),
                synonyms[0].source if synonyms else ConfigSource.DEFAULT,
                key is None or key.is_sensitive,
                key is None or not key.is_dynamic,
                synonyms,
                _UNKNOWN_TYPE if key is None else _TYPE_IDS[key.type],
                # Kafka has texts for these keys only in its documentation, not in responses.
                None if key is None or key.is_dynamic_only else key.documentation,
            )
        )
    return entries


def _describe(
    keys: Mapping[str, ConfigKey],
    overrides: Mapping[str, str],
    own_source: ConfigSource,
    default: Callable[[ConfigKey], Value],
    synonyms_of: Callable[[ConfigKey], list[Synonym]],
) -> list[ConfigEntry]:
    entries = []
    for name, key in keys.items():
        text = overrides.get(name)
        if key.is_internal and text is None:
            continue
        synonyms = synonyms_of(key)
        if text is None:
            shown = value_text(default(key))
        else:
            try:
                shown = value_text(key.parse(text))
            except InvalidValue:
                # The value was checked when it was set, but a later version may refuse it: show the stored text.
                shown = text
            synonyms = [Synonym(name, shown, own_source), *synonyms]
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        entries.append(ConfigEntry(name, shown, source, False, False, synonyms, _TYPE_IDS[key.type], key.documentation))
    return entries
