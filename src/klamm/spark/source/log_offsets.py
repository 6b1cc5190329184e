"""The subscribed partitions of a real cluster, as the planner asks for them."""

from __future__ import annotations

from collections.abc import Collection

from klamm.client.cluster import Cluster
from klamm.client.list_offsets import EARLIEST, LATEST, latest_offsets, list_offsets
from klamm.protocol.types import TopicPartition
from klamm.spark.source.offsets import PartitionOffsets
from klamm.spark.source.options import Subscription

__all__ = ["SubscribedOffsets"]


class SubscribedOffsets:
    """`LogOffsets` over the client; see there."""

    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._missing: tuple[str, ...] = ()

    def latest(self) -> PartitionOffsets:
        """The end of each subscribed partition that exists now: one round trip when nothing has changed."""
        assigned = self._subscription.partitions
        if assigned:
            found = self._listed(assigned, latest=True)
            self._missing = tuple(str(partition) for partition in assigned if partition not in found)
        else:
            found = latest_offsets(self._cluster, self._subscription.topics)
            existing = {topic_partition.topic for topic_partition in found}
            self._missing = tuple(topic for topic in self._subscription.topics if topic not in existing)
        return found

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """The start of each of these partitions that exists."""
        return self._listed(topic_partitions, latest=False)

    def missing(self) -> Collection[str]:
        """What `latest` did not find."""
        return self._missing

    def _listed(self, topic_partitions: Collection[TopicPartition], *, latest: bool) -> PartitionOffsets:
        timestamp = LATEST if latest else EARLIEST
        listed = list_offsets(self._cluster, dict.fromkeys(topic_partitions, timestamp))
        return {topic_partition: found.offset for topic_partition, found in listed.items()}
