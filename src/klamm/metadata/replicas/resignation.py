"""Decides who leads a partition whose leader can't write: its disk is full, or its log is offline.

Another in-sync replica leads, and the broker leaves the in-sync replicas. It joins them again when it holds all records
that were written meanwhile. If no other in-sync replica may lead, nothing changes: the records are safer with a leader
that refuses writes than with a replica that may lack some.

Apache Kafka 4.3 marks a log directory offline at the first failed write, a full disk included, and the controller
elects other leaders for its partitions (`ReplicationControlManager.handleDirectoriesOffline`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from klamm.metadata.entries import live_key, put_partition
from klamm.metadata.metadata_store import Plan
from klamm.metadata.replicas.partition_change import change_partition
from klamm.metadata.replicas.replica_rules import may_lead, rules_of

if TYPE_CHECKING:
    from klamm.metadata.image import MetadataImage, PartitionImage
    from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

__all__ = ["plan_resignation"]


def plan_resignation(
    image: MetadataImage, topic_id: TopicId, index: PartitionIndex, broker_id: BrokerId, leader_epoch: LeaderEpoch
) -> Plan[PartitionImage | None]:
    """Plans another leader for a partition that `broker_id` leads with `leader_epoch`.

    The result is the partition after the change; None if nothing changes.
    """
    topic = image.topics_by_id.get(topic_id)
    if topic is None or index >= len(topic.partitions):
        return Plan(None)
    partition = topic.partitions[index]
    if partition.leader != broker_id or partition.leader_epoch != leader_epoch:
        return Plan(None)
    others = tuple(each for each in partition.isr if each != broker_id)
    if not any(may_lead(image, each) for each in others):
        return Plan(None)
    rules = rules_of(image, topic)
    rules = replace(rules, may_lead=lambda other: other != broker_id and may_lead(image, other))
    # Not an eligible leader replica either: it would be elected again, and could not write.
    changed = change_partition(partition, rules, isr=others, unclean_stops=(broker_id,))
    return Plan(changed, [put_partition(topic_id, changed)], [live_key(changed.leader)])
