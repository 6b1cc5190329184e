"""What the partitions of a group carry: what flows through them, beside what the group has committed."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.core.group.assignors.assignor import PartitionLoad, TopicSpec
from klamm.core.group.group_store import GroupStore
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["partition_loads"]


def partition_loads(
    store: GroupStore, traffic: Traffic, group_id: str, topics: Mapping[TopicId, TopicSpec]
) -> dict[tuple[TopicId, PartitionIndex], PartitionLoad]:
    """What is known of each partition of these topics."""
    loads = {}
    for topic_id, topic in topics.items():
        committed = store.offsets_of(group_id).get(topic.name)
        for index, partition_traffic in enumerate(traffic.get(topic.name, ())):
            if partition_traffic is not None and index < topic.partition_count:
                partition = PartitionIndex(index)
                offset = None if committed is None else committed.get(partition)
                lag = partition_traffic.lag_of(None if offset is None else offset.offset)
                loads[topic_id, partition] = PartitionLoad(partition_traffic.arrival_rate, lag)
    return loads
