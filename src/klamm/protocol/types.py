"""Distinct types for integers and bytes, so that the type checker refuses an epoch in place of an offset."""

from __future__ import annotations

from typing import Final, NamedTuple, NewType

__all__ = [
    "BrokerId",
    "Generation",
    "LeaderEpoch",
    "Millis",
    "NO_TIMESTAMP",
    "Offset",
    "PartitionIndex",
    "ProducerEpoch",
    "ProducerId",
    "TopicId",
    "TopicPartition",
    "ZERO_TOPIC_ID",
]

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
BrokerId = NewType("BrokerId", int)
PartitionIndex = NewType("PartitionIndex", int)
Generation = NewType("Generation", int)
Millis = NewType("Millis", int)
"""Milliseconds since the epoch, or of a duration."""
TopicId = NewType("TopicId", bytes)
"""Sixteen bytes; as text it is Kafka's URL-safe base64 without padding."""

ZERO_TOPIC_ID: Final = TopicId(bytes(16))
NO_TIMESTAMP: Final = Millis(-1)


class TopicPartition(NamedTuple):
    """One partition of one topic; used in every layer."""

    topic: str
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
