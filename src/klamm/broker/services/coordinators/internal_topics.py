"""The internal topics of the broker, and their creation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.internal_topic_names import HISTORY_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.runtime.group_coordinator import load_shard_class

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.services.dynamic_broker_config import DynamicBrokerConfig
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.service import MetadataService

__all__ = ["InternalTopics", "internal_topic"]


def internal_topic(name: str, config: BrokerConfig, offsets_partitions: int, *, is_shared: bool = False) -> NewTopic:
    """Returns the definition of the internal topic of that name, as Kafka's `AutoTopicCreationManager` does.

    On a single broker it has one replica, whatever `offsets.topic.replication.factor` and similar keys say, so that the
    first request does not fail. In a cluster (`is_shared`) these keys count. The history topic has as many partitions
    as the offsets topic (`offsets_partitions`), so that a group has the same partition index in both. Raises ValueError
    for another name.
    """
    if name not in _CONFIGS:
        raise ValueError(f"{name} is no internal topic")
    is_of_transactions = name == TRANSACTIONS_TOPIC
    factor = (
        config.transaction_state_log_replication_factor
        if is_of_transactions
        else config.offsets_topic_replication_factor
    )
    configs = {"compression.type": "producer", **_CONFIGS[name](config)}
    if not is_shared:
        configs["min.insync.replicas"] = "1"
    elif is_of_transactions:
        configs["min.insync.replicas"] = str(config.transaction_state_log_min_isr)
    return NewTopic(
        name,
        partitions=config.transaction_state_log_num_partitions if is_of_transactions else offsets_partitions,
        replication_factor=factor if is_shared else 1,
        configs=configs,
    )


_CONFIGS: Final[Mapping[str, Callable[[BrokerConfig], Mapping[str, str]]]] = {
    OFFSETS_TOPIC: lambda config: {
        "cleanup.policy": "compact",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    },
    TRANSACTIONS_TOPIC: lambda config: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    },
    HISTORY_TOPIC: lambda config: {
        "cleanup.policy": "delete",
        "retention.ms": str(config.klamm_group_history_retention_ms),
    },
}


class InternalTopics:
    """Creates the internal topics of one broker when they are first needed."""

    def __init__(
        self, dynamic_config: DynamicBrokerConfig, metadata: MetadataService, partitions: PartitionRegistry
    ) -> None:
        self._dynamic_config = dynamic_config
        self._metadata = metadata
        self._partitions = partitions

    def offsets_partition_count(self) -> int:
        """Returns how many partitions `__consumer_offsets` has, or will have once it is created."""
        # Not from the store, which may be closed: requests that change state may end after a stop has begun.
        topic = self._metadata.image.topics.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else self._dynamic_config.current.offsets_topic_num_partitions

    def _next_to_the_offsets(self, history: NewTopic) -> NewTopic:
        """Returns the history topic with the replicas of the offsets topic: the broker that coordinates a group writes
        the group's history."""
        offsets = self._metadata.image.topics.get(OFFSETS_TOPIC)
        if offsets is None:
            return history
        assignments = [(partition.index, partition.replicas) for partition in offsets.partitions]
        return replace(history, partitions=-1, replication_factor=-1, assignments=assignments)

    async def ensure(self, name: str) -> None:
        """Creates the topic unless it exists. Its partitions accept writes when this returns.

        Raises KafkaError: COORDINATOR_NOT_AVAILABLE if the broker is about to stop.
        """
        if name == OFFSETS_TOPIC and name not in self._metadata.image.topics:
            # The group coordinator starts as soon as the topic exists. Importing its code takes 15 to 25 ms.
            await asyncio.to_thread(load_shard_class)
        if self._metadata.is_closed:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is about to stop")
        if name not in self._metadata.image.topics:
            config = self._dynamic_config.current
            topic = internal_topic(name, config, self.offsets_partition_count(), is_shared=self._metadata.is_shared)
            await self._metadata.ensure_topic(self._next_to_the_offsets(topic) if name == HISTORY_TOPIC else topic)
        await self._partitions.settled()
