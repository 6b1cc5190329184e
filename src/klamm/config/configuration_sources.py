"""Merges flags, environment, file and profile into one configuration, with errors and warnings.

Precedence: flag (`-X key=value`), environment, file, profile, klamm's own defaults, Kafka's. A key in a stronger source
hides its other names (`log.retention.hours` for `log.retention.ms`) in weaker sources. The environment variable of a
key is `KLAMM_` and the key in upper case with dots as underscores (`KLAMM_LOG_RETENTION_MS`). For klamm's own keys the
name `klamm` is not repeated (`KLAMM_CLUSTER_ID`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from klamm.config.broker_config import BASELINE
from klamm.config.environment import (
    ENVIRONMENT_PREFIX,
    KEYLESS_VARIABLES,
    environment_variable,
    unknown_variables,
)
from klamm.config.errors import ConfigurationError, InvalidValue
from klamm.config.key_support import KeySupport
from klamm.config.nearest import suggestion
from klamm.config.properties import parse_properties
from klamm.config.resolve import resolve_fields
from klamm.config.table import ConfigKey, broker_keys
from klamm.config.values import Value

if TYPE_CHECKING:
    from klamm.config.broker_config import Profile

__all__ = ["ENVIRONMENT_PREFIX", "PROFILES", "environment_variable", "is_set", "load_fields"]

_logger = logging.getLogger(__name__)

PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    "default": {},
    # A first join should not wait for further members, nor for many empty partitions to load. Members of the consumer
    # protocol learn of a change with their next heartbeat, so heartbeats are frequent. A test that kills a member can
    # give its group a short session.
    "test": {
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.heartbeat.interval.ms": "250",
        "group.consumer.min.heartbeat.interval.ms": "50",
        "group.consumer.min.session.timeout.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    },
}
"""The settings of each profile."""

# Names of the same setting: a name in a stronger source hides the others in weaker sources.
_ALTERNATIVES: Final = (
    ("node.id", "broker.id"),
    ("log.dirs", "log.dir"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_ALTERNATIVES_OF: Final = {name: group for group in _ALTERNATIVES for name in group}
_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(?:[^.]*\.)?(?P<key>(?:ssl|sasl|principal|connections)\..*)")

_INTEGER_RANGES: Final = {"SHORT": "-32768 to 32767", "INT": "-2147483648 to 2147483647"}


class Setting(NamedTuple):
    """The text of a setting, and its source."""

    text: str
    source: str


def load_fields(
    flags: Mapping[str, str], environ: Mapping[str, str], file: Path | None, profile: Profile, flags_name: str
) -> dict[str, Any]:
    """Returns the fields of `BrokerConfig` from these sources; empty if no source sets a key.

    Logs one warning for all unknown keys, and one for all keys without effect. Raises ConfigurationError.
    """
    variables = {
        name: text
        for name, text in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in KEYLESS_VARIABLES
    }
    layers = [
        {key: Setting(text, f"profile {profile}") for key, text in PROFILES[profile].items()},
        _from_file(file) if file is not None else {},
        _from_environment(variables) if variables else {},
        {key: Setting(text, flags_name) for key, text in flags.items()},
    ]
    if not any(layers):
        return {}
    settings = {key: Setting(text, "klamm's default") for key, text in BASELINE.items()}
    for layer in layers:
        for key in layer:
            for hidden in _ALTERNATIVES_OF.get(key, ()):
                settings.pop(hidden, None)
        settings.update(layer)
    values = _values(settings)
    try:
        fields = resolve_fields(values)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}{_where(str(error), settings)}") from None
    fields["explicit"] = MappingProxyType({key: setting.text for key, setting in settings.items()})
    return fields


def is_set(key: str, flags: Mapping[str, str], environ: Mapping[str, str], file: Path | None) -> bool:
    """Returns whether flags, environment or file set the key under any of its names. Raises ConfigurationError."""
    names = _ALTERNATIVES_OF.get(key, (key,))
    in_file = _from_file(file) if file is not None else {}
    return any(name in flags or environment_variable(name) in environ or name in in_file for name in names)


def _from_file(path: Path) -> dict[str, Setting]:
    try:
        # Java reads a stream of properties as ISO-8859-1; other characters are written as \uXXXX.
        text = path.read_text(encoding="iso-8859-1")
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror}") from error
    try:
        properties = parse_properties(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}, {error}") from None
    return {key: Setting(entry.value, f"{path}, line {entry.line}") for key, entry in properties.items()}


def _from_environment(variables: Mapping[str, str]) -> dict[str, Setting]:
    """Returns the settings of the variables; unknown variables are ignored with a warning, as they may be foreign."""
    keys = {environment_variable(key): key for key in broker_keys()}
    unknown = unknown_variables(variables)
    if unknown:
        _logger.warning(
            "no configuration key has these environment variables; they are ignored: %s", ", ".join(unknown)
        )
    return {
        keys[name]: Setting(text, f"environment variable {name}") for name, text in variables.items() if name in keys
    }


def _values(settings: Mapping[str, Setting]) -> dict[str, Value]:
    """Parses the values of all known keys; refuses invalid ones, and warns of unknown and ineffective keys."""
    keys = broker_keys()
    values: dict[str, Value] = {}
    unknown: list[str] = []
    ineffective: list[str] = []
    for name, (text, source) in settings.items():
        key = keys.get(name)
        if key is None or key.is_dynamic_only:
            _refuse_listener_security(name, source)
            unknown.append(name + suggestion(name, (each.name for each in keys.values() if not each.is_dynamic_only)))
            continue
        try:
            value = values[name] = key.parse(text)
        except InvalidValue as error:
            shown = "[hidden]" if key.is_sensitive else text
            raise ConfigurationError(f"{name}={shown} ({source}): {error.reason}; {_allowed(key)}") from None
        if key.support is KeySupport.REFUSED and value != key.default_value():
            raise ConfigurationError(f"{name} ({source}) is refused. {key.reason}")
        if key.support is KeySupport.ACCEPTED and BASELINE.get(name) != text:
            ineffective.append(name)
    if unknown:
        _logger.warning("These configuration keys are not known and are ignored: %s", ", ".join(sorted(unknown)))
    if ineffective:
        _logger.warning("These configuration keys are set and have no effect: %s", ", ".join(sorted(ineffective)))
    return values


def _refuse_listener_security(name: str, source: str) -> None:
    """Refuses the security keys of single listeners (`listener.name.<listener>.[<mechanism>.]ssl...`)."""
    match = _LISTENER_KEY.fullmatch(name)
    if match is not None:
        key = broker_keys().get(match["key"])
        if key is not None and key.support is KeySupport.REFUSED:
            raise ConfigurationError(f"{name} ({source}) is refused. {key.reason}")


def _allowed(key: ConfigKey) -> str:
    if key.type == "BOOLEAN":
        return "allowed are true and false"
    if key.valid_values:
        return f"allowed: {key.valid_values}"
    if key.type in _INTEGER_RANGES:
        return f"allowed are whole numbers from {_INTEGER_RANGES[key.type]}"
    kinds = {"LONG": "a whole number of 64 bits", "DOUBLE": "a number", "LIST": "a list, cut at commas"}
    return f"allowed is {kinds.get(key.type, 'a text')}"


def _where(message: str, settings: Mapping[str, Setting]) -> str:
    """Returns the settings and sources of the keys that a message names, except klamm's own defaults."""
    words = set(re.findall(r"[\w.]*\w", message))
    named = [
        f"{key}={setting.text} ({setting.source})"
        for key, setting in settings.items()
        if words.intersection(_ALTERNATIVES_OF.get(key, (key,))) and setting.source != "klamm's default"
    ]
    return f" [{'; '.join(named)}]" if named else ""
