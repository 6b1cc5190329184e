"""Rules for topic names. Source: `org.apache.kafka.common.internals.Topic` of Apache Kafka 4.3."""

from __future__ import annotations

import re
from typing import Final

from klamm.protocol.internal_topic_names import HISTORY_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

__all__ = [
    "collision_key",
    "is_internal",
    "shortened",
    "why_invalid",
]

_MAX_LENGTH: Final = 249
_INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, HISTORY_TOPIC})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str | None:
    """Returns the reason, in Kafka's words, why a topic name is invalid, None for a valid name."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > _MAX_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {_MAX_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def shortened(name: str) -> str:
    """Shortens a name that is too long for a topic, for messages about single partitions.

    A request contains the name once. The response would repeat it for each of many partitions: gigabytes in total.
    """
    return name if len(name) <= _MAX_LENGTH else f"{name[:_MAX_LENGTH]}..."


def collision_key(name: str) -> str:
    """Returns the key that must be unique among topics: Kafka's metric names don't distinguish '.' and '_'."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Returns whether the topic is internal: only the broker writes to it, and pattern subscriptions leave it out."""
    return name in _INTERNAL_TOPICS
