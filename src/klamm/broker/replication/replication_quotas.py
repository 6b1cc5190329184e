"""Throttles replication on one broker (KIP-73): as a leader of other brokers, and as their follower.

The topic configurations `leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` name the
replicas; the rates are dynamic configurations of the broker. `kafka-reassign-partitions.sh --throttle` sets both.

Source: `ReplicaManager.shouldLeaderThrottle`, `RemoteLeaderEndPoint.shouldFollowerThrottle` and
`KafkaApis.handleFetchRequest` of Apache Kafka 4.3.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from klamm.core.replication.replication_quota import ReplicationQuota, names_replica

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.config.broker_config import BrokerConfig
    from klamm.protocol.types import BrokerId
    from klamm.storage.log.log import Log

__all__ = ["ReplicationQuotas"]


class ReplicationQuotas:
    """The quotas of one broker for both directions."""

    def __init__(self, config: BrokerConfig) -> None:
        """Takes the time spans of the configuration. The rates follow with `use`."""
        self._node_id = config.node_id
        samples, sample_ms = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        self._leader = ReplicationQuota(config.leader_replication_throttled_rate, samples=samples, sample_ms=sample_ms)
        self._follower = ReplicationQuota(
            config.follower_replication_throttled_rate, samples=samples, sample_ms=sample_ms
        )

    def use(self, before: BrokerConfig, current: BrokerConfig) -> None:
        """Takes over changed rates."""
        self._leader.limit = current.leader_replication_throttled_rate
        self._follower.limit = current.follower_replication_throttled_rate

    # -- as a leader ---------------------------------------------------------------------------------------------------

    def holds_back(self, partition: Partition, follower: BrokerId) -> bool:
        """Returns whether a follower gets no records of a partition now: it is not in sync, the partition is throttled,
        and the quota is used up."""
        return (
            self._is_throttled_here(partition)
            and follower not in partition.image.isr
            and self._leader.is_exceeded(_now_ms())
        )

    def sent(self, partition: Partition, size_bytes: int) -> None:
        """Counts records that a follower gets, if the partition is throttled."""
        if self._is_throttled_here(partition):
            self._leader.record(size_bytes, _now_ms())

    def _is_throttled_here(self, partition: Partition) -> bool:
        throttled = partition.log.config.leader_replication_throttled_replicas
        return names_replica(throttled, partition.index, self._node_id)

    # -- as a follower -------------------------------------------------------------------------------------------------

    def is_follower_over(self) -> bool:
        """Returns whether the quota for throttled partitions that this broker follows is used up."""
        return self._follower.is_exceeded(_now_ms())

    def is_throttled(self, log: Log) -> bool:
        """Returns whether the log of a partition that this broker follows is throttled."""
        throttled = log.config.follower_replication_throttled_replicas
        return names_replica(throttled, log.topic_partition.partition, self._node_id)

    def received(self, log: Log, size_bytes: int) -> None:
        """Counts records of a leader, if the partition is throttled."""
        if self.is_throttled(log):
            self._follower.record(size_bytes, _now_ms())


def _now_ms() -> float:
    return time.monotonic() * 1000
