"""The replica of a partition on this broker, whether this broker leads the partition or follows it.

A replica that does not lead answers a debugging consumer (replica id -2), and DescribeProducers. Source:
`fetchOnlyFromLeader` in `ReplicaManager.fetchOffset` and `Partition.getLocalLog` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from klamm.broker.partitions.role import Role, wrong_leader_epoch
from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.protocol.types import LeaderEpoch
    from klamm.storage.log.log import Log

__all__ = ["LocalReplica", "local_replica"]


class LocalReplica(NamedTuple):
    """A log on this broker, and the leader epoch under which it is led or followed."""

    log: Log
    leader_epoch: LeaderEpoch


def local_replica(registry: PartitionRegistry, topic: str, index: int, current_leader_epoch: int = -1) -> LocalReplica:
    """Returns the replica of a partition on this broker.

    Raises KafkaError as `PartitionRegistry.get`: UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
    KAFKA_STORAGE_ERROR, and NOT_LEADER_OR_FOLLOWER if this broker is no replica or has no log of the partition yet.
    """
    led = registry.by_name.get(topic)
    partition = None if led is None or not 0 <= index < len(led.partitions) else led.partitions[index]
    if led is None or partition is not None or registry.role(topic, index) in (None, Role.LEADER, Role.NOT_HERE):
        partition = registry.get(topic, index, current_leader_epoch)
        partition.check_leader_epoch(current_leader_epoch)
        return LocalReplica(partition.log, partition.leader_epoch)
    image = led.image.partitions[index]
    if current_leader_epoch not in (-1, image.leader_epoch):
        raise wrong_leader_epoch(f"{topic}-{index}", current_leader_epoch, image.leader_epoch)
    if index in led.failures:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, led.failures[index])
    log = registry.unled.find(led, index)
    if log is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker has no log of {topic}-{index} yet")
    return LocalReplica(log, image.leader_epoch)
