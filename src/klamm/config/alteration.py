"""Applies requested alterations to settings: set, delete, append and subtract (KIP-339).

Pure. Source: `ConfigAdminManager` and `ConfigurationControlManager` of Apache Kafka 4.3, with their codes and messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from klamm.config.table import ConfigKey
from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = [
    "Alteration",
    "Operation",
    "apply_alterations",
    "check_min_insync_replicas",
    "check_sizes",
    "check_alterations",
]

_MAX_VALUE_LENGTH: Final = 32767
_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class Operation(IntEnum):
    """The kind of an alteration (`AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One requested alteration. `operation` is the number in the request, which may be unknown."""

    name: str
    operation: int
    value: str | None


def check_alterations(alterations: Iterable[Alteration]) -> None:
    """Raises INVALID_REQUEST for a duplicate key, a missing value, or an unknown operation."""
    names: set[str] = set()
    missing: list[str] = []
    for name, operation, value in alterations:
        if name in names:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        names.add(name)
        if value is None and operation != Operation.DELETE:
            missing.append(name)
        if operation not in Operation._value2member_map_:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    if missing:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}")


def apply_alterations(
    current: Mapping[str, str], alterations: Iterable[Alteration], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """Returns the settings after `alterations` (checked by `check_alterations`) of `current`.

    Append and subtract use the default of a key that isn't set. They raise INVALID_CONFIG for a key that is no list.
    """
    result = dict(current)
    for name, operation, value in alterations:
        if operation == Operation.DELETE:
            result.pop(name, None)
            continue
        assert value is not None
        if operation == Operation.SET:
            result[name] = value
            continue
        key = keys.get(name)
        if key is None or key.type != "LIST":
            verb = Operation(operation).name.upper()
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {name} because its type is not LIST.")
        items = [item for item in (result.get(name, key.default) or "").split(",") if item]
        change = _append if operation == Operation.APPEND else _subtract
        result[name] = ",".join(change(items, _split(value)))
    return result


def check_min_insync_replicas(
    broker: str, alterations: Iterable[Alteration], current: Mapping[str, str], wanted: Mapping[str, str]
) -> None:
    """Raises INVALID_CONFIG if `min.insync.replicas` is altered on one broker, or removed for all brokers (KIP-966).

    With eligible leader replicas (ELR) all brokers must have the same value. `broker` is an id, or "" for all brokers.
    """
    if broker and any(name == _MIN_INSYNC_REPLICAS for name, _, _ in alterations):
        reason = f"Broker-level {_MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, reason)
    if not broker and _MIN_INSYNC_REPLICAS in current and _MIN_INSYNC_REPLICAS not in wanted:
        reason = f"Cluster-level {_MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, reason)


def _append(items: list[str], more: list[str]) -> list[str]:
    """Returns the items, and the new ones in `more` without duplicates."""
    known = set(items)
    return items + [item for item in dict.fromkeys(more) if item not in known]


def _subtract(items: list[str], fewer: list[str]) -> list[str]:
    """Returns the items without those in `fewer`; each of these removes only the first equal item."""
    taken = Counter(fewer)
    left = []
    for item in items:
        if taken[item]:
            taken[item] -= 1
        else:
            left.append(item)
    return left


def check_sizes(current: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIG for a changed value that is too long for Kafka's metadata."""
    for name, value in wanted.items():
        if current.get(name) != value and len(value) > _MAX_VALUE_LENGTH:
            reason = "The configuration value cannot be added because it exceeds the maximum value size of"
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{reason} {_MAX_VALUE_LENGTH} bytes.")


def _split(text: str) -> list[str]:
    """Splits as Java's `String.split`: empty strings at the end are left out."""
    items = text.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return items
