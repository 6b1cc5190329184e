"""The topics that the broker keeps for itself, and how they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.metadata.service import NewTopic

if TYPE_CHECKING:
    from klamm.config.broker import BrokerConfig

__all__ = ["OFFSETS_TOPIC", "internal_topic"]

OFFSETS_TOPIC: Final = "__consumer_offsets"


def internal_topic(name: str, config: BrokerConfig) -> NewTopic:
    """What to create for the internal topic of that name, as Kafka's `AutoTopicCreationManager` does.

    On one node there is one replica, whatever `offsets.topic.replication.factor` says: a first contact should not
    fail for it.
    """
    if name != OFFSETS_TOPIC:
        raise ValueError(f"{name} is no internal topic")
    return NewTopic(
        name,
        partitions=config.offsets_topic_num_partitions,
        replication_factor=1,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "min.insync.replicas": "1",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )
