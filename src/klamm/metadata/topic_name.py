"""Rules for topic names. Source: `org.apache.kafka.common.internals.Topic` of Apache Kafka 4.3."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "CLUSTER_METADATA_TOPIC",
    "GROUP_HISTORY_TOPIC",
    "GROUP_METADATA_TOPIC",
    "TRANSACTION_STATE_TOPIC",
    "collision_key",
    "is_internal",
    "shortened",
    "why_invalid",
]

_MAX_LENGTH: Final = 249
GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
GROUP_HISTORY_TOPIC: Final = "__group_history"
"""klamm's own topic with the history of groups."""
_INTERNAL_TOPICS: Final = frozenset(
    {GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state", GROUP_HISTORY_TOPIC}
)
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"

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
