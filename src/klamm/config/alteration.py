"""Applies requested alterations of settings: set, delete, append to and subtract from what is set (KIP-339).

Pure. Source: `ConfigAdminManager` and `ConfigurationControlManager` of Apache Kafka 4.3, codes and words included.
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

MAX_VALUE_LENGTH: Final = 32767
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class Operation(IntEnum):
    """What to do with a value (`AlterConfigOp.OpType`)."""

    set = 0
    delete = 1
    append = 2
    subtract = 3


class Alteration(NamedTuple):
    """One requested alteration. `operation` is the number from the wire."""

    name: str
    operation: int
    value: str | None


def check_alterations(alterations: Iterable[Alteration]) -> None:
    """Raises INVALID_REQUEST for a key that is named twice, a value that is missing, an operation that isn't one."""
    names: set[str] = set()
    missing: list[str] = []
    for name, operation, value in alterations:
        if name in names:
            raise KafkaError(ErrorCode.invalid_request, "Error due to duplicate config keys")
        names.add(name)
        if value is None and operation != Operation.delete:
            missing.append(name)
        if operation not in Operation._value2member_map_:
            raise KafkaError(ErrorCode.invalid_request, f"Unknown operations type {operation}")
    if missing:
        raise KafkaError(ErrorCode.invalid_request, f"Null value not supported for : {', '.join(missing)}")


def apply_alterations(
    current: Mapping[str, str], alterations: Iterable[Alteration], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """What is set once `alterations` (checked by `check_alterations`) are made to `current`.

    Appending to a key that isn't set begins with its default. Raises INVALID_CONFIG for appending to or subtracting
    from what is no list.
    """
    result = dict(current)
    for name, operation, value in alterations:
        if operation == Operation.delete:
            result.pop(name, None)
            continue
        assert value is not None
        if operation == Operation.set:
            result[name] = value
            continue
        key = keys.get(name)
        if key is None or key.type != "LIST":
            verb = Operation(operation).name.upper()
            raise KafkaError(ErrorCode.invalid_config, f"Can't {verb} to key {name} because its type is not LIST.")
        items = [item for item in (result.get(name, key.default) or "").split(",") if item]
        change = _append if operation == Operation.append else _subtract
        result[name] = ",".join(change(items, _split(value)))
    return result


def check_min_insync_replicas(
    broker: str, alterations: Iterable[Alteration], current: Mapping[str, str], wanted: Mapping[str, str]
) -> None:
    """Raises INVALID_CONFIG where `min.insync.replicas` would be set on one broker, or unset for all (KIP-966).

    With eligible leader replicas all brokers have to agree on it. `broker`: its id, or "" for all.
    """
    if broker and any(name == MIN_INSYNC_REPLICAS for name, _, _ in alterations):
        reason = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        raise KafkaError(ErrorCode.invalid_config, reason)
    if not broker and MIN_INSYNC_REPLICAS in current and MIN_INSYNC_REPLICAS not in wanted:
        reason = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise KafkaError(ErrorCode.invalid_config, reason)


def _append(items: list[str], more: list[str]) -> list[str]:
    """The items and those of `more` that are not among them, each of these once."""
    known = set(items)
    return items + [item for item in dict.fromkeys(more) if item not in known]


def _subtract(items: list[str], fewer: list[str]) -> list[str]:
    """The items without those in `fewer`: each takes one away, the first that is equal."""
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
        if current.get(name) != value and len(value) > MAX_VALUE_LENGTH:
            reason = "The configuration value cannot be added because it exceeds the maximum value size of"
            raise KafkaError(ErrorCode.invalid_config, f"{reason} {MAX_VALUE_LENGTH} bytes.")


def _split(text: str) -> list[str]:
    """As Java's `String.split`: empty strings at the end are no items."""
    items = text.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return items
