"""The common code of both faces of the producer: the choice of a record's partition, and the errors of waiting."""

from __future__ import annotations

import random
from typing import Final

from klamm.client.errors import GaveUp, PartitionMissing, RequestRefused
from klamm.client.producer.errors import BufferFull
from klamm.client.producer.machine import ProducerMachine
from klamm.client.producer.partitioner import StickyPartitioner
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.types import Millis, PartitionIndex, TopicPartition

__all__ = ["ProducerFront"]

_JITTER: Final = 0.2
_MANY_PARTITIONS: Final = 1 << 20


def _jitter() -> float:
    return random.uniform(1 - _JITTER, 1 + _JITTER)


class ProducerFront:
    """The machine of one producer, with its partitioners."""

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self.machine = ProducerMachine(config, _jitter)
        self._partitioners: dict[str, StickyPartitioner] = {}

    def place(
        self, topic: str, partition: int | None, key: bytes | None, value: bytes | None, count: int
    ) -> TopicPartition:
        """Returns the partition of a record, out of `count`. Raises `PartitionMissing` if the given partition does not
        exist."""
        if partition is not None:
            if not 0 <= partition < count:
                raise PartitionMissing(f"the topic {topic!r} has no partition {partition}: it has {count}")
            return TopicPartition(topic, PartitionIndex(partition))
        partitioner = self._partitioners.get(topic)
        if partitioner is None:
            partitioner = self._partitioners[topic] = StickyPartitioner(
                self.config.partitioner, self.config.batch_size_bytes, random.randrange(_MANY_PARTITIONS)
            )
        size_bytes = (0 if key is None else len(key)) + (0 if value is None else len(value))
        return TopicPartition(topic, partitioner.partition(key, size_bytes, count))

    def count(self, topic: str) -> int | None:
        """Returns the number of partitions; None while it is not known. Raises the error that stopped the producer, and
        `RequestRefused` if the cluster does not describe the topic."""
        if self.machine.failure is not None:
            raise self.machine.failure
        known = self.machine.view.topic(topic)
        if known is not None:
            return len(known.partitions)
        if (code := self.machine.topic_refusal(topic)) is not None:
            self.machine.forget_topic(topic)
            raise RequestRefused(code, f"the cluster does not describe the topic {topic!r}")
        return self.machine.partition_count(topic)

    def topic_missing(self, topic: str) -> PartitionMissing:
        """Returns the error for a topic without metadata."""
        self.machine.forget_topic(topic)
        return PartitionMissing(
            f"no broker described the topic {topic!r} within max.block.ms={self.config.max_block_ms}: does it exist, "
            "and is a broker reachable?"
        )

    def buffer_full(self) -> BufferFull:
        """Returns the error for memory that stays full."""
        return BufferFull(
            f"buffer.memory={self.config.buffer_memory_bytes} stayed full for max.block.ms="
            f"{self.config.max_block_ms}: the brokers do not acknowledge as fast as records are sent"
        )

    def gave_up(self, name: str, timeout_ms: Millis, reason: str = "") -> GaveUp:
        """Returns the error for an operation that takes too long; the operation continues."""
        because = f" ({reason})" if reason else ""
        return GaveUp(f"gave up waiting to {name} after {timeout_ms} ms; it is still under way{because}")
