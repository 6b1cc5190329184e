"""The table of all configuration keys: their definition in Apache Kafka 4.3, and their support in klamm.

`tools/dump_kafka_configs` has read Kafka's part (type, default, documentation, range, ...) from Kafka itself; it is
stored next to this file as JSON. klamm's part is `key_support.py`. Both are read on first use: a broker without any
settings starts without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from klamm.config.key_support import KEY_SUPPORT, KeySupport, SupportEntry
from klamm.config.own_keys import OWN_BROKER_KEYS, OWN_GROUP_KEYS, TOPIC_WEIGHT, TOPIC_WEIGHT_PREFIX
from klamm.config.values import Check, Value, check_value, parse_value

__all__ = [
    "ConfigKey",
    "broker_keys",
    "broker_synonyms",
    "client_metrics_keys",
    "group_keys",
    "group_keys_with",
    "group_synonyms",
    "kafka_version",
    "topic_keys",
    "topic_synonyms",
]


class ConfigKey(NamedTuple):
    """One key. `default` is the text that Kafka shows; None means no value, as for a required key."""

    name: str
    scope: str
    type: str
    default: str | None
    is_required: bool
    documentation: str
    valid_values: str
    check: Check | None
    importance: str
    is_internal: bool
    """Whether descriptions leave the key out unless it is set."""
    update_mode: str
    """How the key may be set on a running broker: `read-only`, `per-broker` or `cluster-wide`."""
    is_dynamic_only: bool
    """Whether the key can be set on a running broker, but not in its file."""
    support: KeySupport
    reason: str

    @property
    def is_sensitive(self) -> bool:
        """Whether the key's value is never shown."""
        return self.type == "PASSWORD"

    @property
    def is_dynamic(self) -> bool:
        """Whether Kafka allows the key to be set on a running broker."""
        return self.update_mode != "read-only"

    def parse(self, text: str) -> Value:
        """Parses `text`, and checks the value against the key's range. Raises InvalidValue."""
        value = parse_value(self.name, text, self.type)
        if self.check is not None:
            check_value(self.name, value, self.check)
        return value

    def default_value(self) -> Value:
        """Returns the default as a value."""
        return None if self.default is None else _parse_once(self.name, self.default, self.type)


@cache
def _parse_once(name: str, text: str, kind: str) -> Value:
    return parse_value(name, text, kind)


# As Kafka's `DynamicBrokerConfig.brokerConfigSynonyms`: names for one setting in different units, the strongest first.
_ROLL: Final = ("log.roll.ms", "log.roll.hours")
_ROLL_JITTER: Final = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_BROKER_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_ROLL_JITTER, _ROLL_JITTER),
    **dict.fromkeys(_RETENTION, _RETENTION),
    # Only in this direction: the scheduler's interval is a separate setting, whose value is the fallback here.
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Returns the broker keys of the same setting as `name`, in order of precedence, including `name`."""
    return _BROKER_SYNONYMS.get(name, (name,))


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(__file__).with_name("kafka_configs.json").read_bytes())
    return data


def _keys(scope: str, entries: Mapping[str, Mapping[str, Any]]) -> Mapping[str, ConfigKey]:
    support = KEY_SUPPORT[scope]
    return MappingProxyType({name: _key(name, scope, entry, support[name]) for name, entry in entries.items()})


def _key(name: str, scope: str, entry: Mapping[str, Any], support: SupportEntry) -> ConfigKey:
    return ConfigKey(
        name,
        scope,
        entry["type"],
        entry.get("default"),
        "default" not in entry,
        entry["doc"],
        entry.get("valid", ""),
        entry.get("check"),
        entry["importance"].lower(),
        entry.get("internal", False),
        entry.get("update_mode", "read-only"),
        entry.get("dynamic_only", False),
        *support,
    )


@cache
def broker_keys() -> Mapping[str, ConfigKey]:
    """Returns Kafka's broker keys and klamm's own, by name."""
    return _keys("broker", {**_data()["broker"], **OWN_BROKER_KEYS})


@cache
def topic_keys() -> Mapping[str, ConfigKey]:
    """Returns the topic keys, by name."""
    return _keys("topic", _data()["topic"])


@cache
def group_keys() -> Mapping[str, ConfigKey]:
    """Returns Kafka's group keys (KIP-848, KIP-932, KIP-1071) and klamm's own, by name; without weights of topics."""
    return _keys("group", {**_data()["group"], **OWN_GROUP_KEYS})


def group_keys_with(names: Iterable[str]) -> Mapping[str, ConfigKey]:
    """Returns the group keys and the keys among `names` that are weights of topics, of which each topic has its own."""
    weights = [name for name in names if name.startswith(TOPIC_WEIGHT_PREFIX) and name != TOPIC_WEIGHT_PREFIX]
    if not weights:
        return group_keys()
    support = KEY_SUPPORT["group"][TOPIC_WEIGHT_PREFIX]
    return {**group_keys(), **{name: _key(name, "group", TOPIC_WEIGHT, support) for name in sorted(weights)}}


@cache
def client_metrics_keys() -> Mapping[str, ConfigKey]:
    """Returns the keys of a subscription to clients' metrics (KIP-714), by name."""
    return _keys("client_metrics", _data()["client_metrics"])


@cache
def topic_synonyms() -> Mapping[str, tuple[tuple[str, int], ...]]:
    """Maps a topic key to the broker keys of its default, strongest first, each with the factor to the topic's unit."""
    return {name: tuple((key, factor) for key, factor in keys) for name, keys in _data()["topic_synonyms"].items()}


def group_synonyms() -> Mapping[str, str]:
    """Maps a group key to the broker key of its default; group keys without such a broker key are missing."""
    synonyms: dict[str, str] = _data()["group_synonyms"]
    return synonyms


def kafka_version() -> str:
    """Returns the version of Apache Kafka from which the table was read."""
    version: str = _data()["kafka_version"]
    return version
