"""The layers of a running broker's settings: set on the broker, set for the cluster, given at the start.

Precedence as in Kafka's `DynamicBrokerConfig` (KIP-226): settings of the broker, settings for the whole cluster,
settings at the start, defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

from klamm.config.broker_config import BrokerConfig
from klamm.config.errors import ConfigurationError, InvalidValue
from klamm.config.resolve import resolve_topic_defaults
from klamm.config.table import broker_keys, broker_synonyms, topic_synonyms
from klamm.config.topic_config import TopicConfig
from klamm.config.values import Value

__all__ = ["BrokerLayers", "ConfigSource", "Synonym", "apply_dynamic"]

# Dynamic in Kafka; klamm opens its sockets only at the start.
_SET_AT_START: Final = frozenset({"listeners"})


class ConfigSource(IntEnum):
    """The source of a value in DescribeConfigs (`DescribeConfigsResponse.ConfigSource`)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """A key that was searched for a value, with the text found there; None if the text must not be shown."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """The settings of one broker by layer: `static` (`BrokerConfig.explicit`), `cluster`, and `broker`.

    The settings of cluster and broker were checked when they were set. A setting that is no longer valid after an
    upgrade is ignored.
    """

    static: Mapping[str, str]
    cluster: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)

    def merged(self) -> dict[str, str]:
        """Returns the effective texts. A key in a stronger layer hides its synonyms in weaker layers."""
        result = self._static()
        for layer in (self.cluster, self.broker):
            for name, text in layer.items():
                key = broker_keys().get(name)
                if key is None or not key.is_dynamic or not _is_valid(name, text):
                    continue
                for synonym in broker_synonyms(name):
                    result.pop(synonym, None)
                result[name] = text
        return result

    def values(self) -> dict[str, Value]:
        """Returns the value of every key: the effective value, or the default."""
        keys = broker_keys()
        result = dict(_default_values())
        result.update((name, keys[name].parse(text)) for name, text in self.merged().items() if name in keys)
        return result

    def synonyms(self, name: str) -> list[Synonym]:
        """Returns the synonyms that Kafka lists for a broker key, from the strongest layer to the default.

        Synonyms before the first entry of the key itself are left out, as in Kafka. So `log.retention.ms` has no
        synonym as long as only `log.retention.hours` has a value.
        """
        keys = broker_keys()
        names = broker_synonyms(name)
        key = keys.get(name)
        is_sensitive = key is None or key.is_sensitive
        found: list[Synonym] = []
        for layer, source in (
            (self.broker, ConfigSource.DYNAMIC_BROKER),
            (self.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self._static(), ConfigSource.STATIC_BROKER),
            (_defaults(names), ConfigSource.DEFAULT),
        ):
            for other in names:
                text = layer.get(other)
                if text is not None:
                    found.append(Synonym(other, None if is_sensitive else text, source))
        first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
        return found[first:]

    def _static(self) -> dict[str, str]:
        static = dict(self.static)
        # Kafka fills in each of the two keys from the other (`populateSynonyms`).
        if "node.id" in static:
            static.setdefault("broker.id", static["node.id"])
        elif "broker.id" in static:
            static["node.id"] = static["broker.id"]
        return static


@cache
def _default_values() -> Mapping[str, Value]:
    return {name: key.default_value() for name, key in broker_keys().items() if not key.is_dynamic_only}


def _defaults(names: Iterable[str]) -> dict[str, str | None]:
    """Returns the defaults that Kafka lists: the defaults of keys that may be in its file."""
    keys = broker_keys()
    return {name: keys[name].default for name in names if name in keys and not keys[name].is_dynamic_only}


def apply_dynamic(config: BrokerConfig, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
    """Returns the loaded `config` with the settings that were changed on the running broker.

    Those are the defaults of topics, and the fields whose key Kafka allows to change on a running broker, except
    listeners. `explicit` keeps the settings of the start. Settings that are no longer valid are ignored.
    """
    if not cluster and not broker:
        return config
    keys = broker_keys()
    merged = BrokerLayers(config.explicit, cluster, broker).merged()
    values = {name: keys[name].parse(text) for name, text in merged.items() if name in keys}
    dynamic = {name for name in (*cluster, *broker) if name in keys and keys[name].is_dynamic}
    changes: dict[str, Any] = {}
    for each in fields(BrokerConfig):
        name = each.name.replace("_", ".")
        if name in dynamic and name in values and each.name not in _SET_AT_START:
            changes[each.name] = values[name]
    try:
        defaults = resolve_topic_defaults(values)
    except ConfigurationError:
        return replace(config, **changes)
    set_here = {
        topic_key.replace(".", "_")
        for topic_key, synonyms in topic_synonyms().items()
        if any(name in dynamic for name, _ in synonyms)
    }
    topic_changes = {each.name: getattr(defaults, each.name) for each in fields(TopicConfig) if each.name in set_here}
    return replace(config, **changes, topic_defaults=replace(config.topic_defaults, **topic_changes))


def _is_valid(name: str, text: str) -> bool:
    try:
        broker_keys()[name].parse(text)
    except InvalidValue:
        return False
    return True
