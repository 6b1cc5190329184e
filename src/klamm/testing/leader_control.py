"""Moves leaderships on a running broker's cluster, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.metadata.replicas.partition_change import Election
from klamm.metadata.replicas.reassignments import Reassignment
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, PartitionIndex, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.server import BrokerServer

__all__ = ["move_leader"]


async def move_leader(server: BrokerServer, topic: str, partition: int, to: int) -> None:
    """Makes a replica the preferred leader of a partition, and elects it.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE if the broker has no replica,
    PREFERRED_LEADER_NOT_AVAILABLE if the replica is not in sync.
    """
    assert server.context is not None
    metadata = server.context.metadata
    found = metadata.image.topics.get(topic)
    if found is None or not 0 <= partition < len(found.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}")
    replicas = found.partitions[partition].replicas
    if to not in replicas:
        raise KafkaError(
            ErrorCode.REPLICA_NOT_AVAILABLE, f"broker {to} has no replica of {topic}-{partition}: {list(replicas)} have"
        )
    ordered = [to, *(each for each in replicas if each != to)]
    (refused,) = await metadata.replicas.reassign([Reassignment(topic, partition, ordered)], allows_other_factor=False)
    if refused is not None:
        raise refused
    where = TopicPartition(topic, PartitionIndex(partition))
    ((code, message),) = await metadata.replicas.elect([where], Election.PREFERRED)
    is_led_there = metadata.image.topics[topic].partitions[partition].leader == BrokerId(to)
    if code is not ErrorCode.NONE and not is_led_there:
        raise KafkaError(code, message)
