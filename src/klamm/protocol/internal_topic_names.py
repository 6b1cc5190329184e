"""The names of the internal topics. Source: `org.apache.kafka.common.internals.Topic` of Apache Kafka 4.3."""

from __future__ import annotations

from typing import Final

__all__ = [
    "HISTORY_TOPIC",
    "METADATA_TOPIC",
    "OFFSETS_TOPIC",
    "SHARE_STATE_TOPIC",
    "TRANSACTIONS_TOPIC",
]

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The groups and their committed offsets."""
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
"""klamm does not serve share groups, so it reads only what Apache Kafka has written."""
METADATA_TOPIC: Final = "__cluster_metadata"
"""The metadata of a cluster of Apache Kafka. klamm uses only the name."""
HISTORY_TOPIC: Final = "__group_history"
"""klamm's own topic with the history of groups."""
