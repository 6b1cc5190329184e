"""The metadata changes at a broker's start: its registration, and new leader epochs for the partitions that it
leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from klamm.metadata.entries import broker_key, put_broker, put_cluster, put_configs, put_partition
from klamm.metadata.image import MetadataImage, ResourceType
from klamm.metadata.metadata_store import Change, Plan
from klamm.protocol.types import BrokerId, LeaderEpoch, TopicPartition

__all__ = ["plan_deregistration", "plan_registration"]


def plan_deregistration(image: MetadataImage, broker_id: BrokerId) -> Plan[None]:
    """Removes an earlier registration of the broker, so that the key of the new one gets a new create revision."""
    if broker_id not in image.brokers:
        return Plan(None)
    return Plan(None, [Change(broker_key(broker_id), None)])


def plan_registration(
    image: MetadataImage,
    broker_id: BrokerId,
    host: str,
    port: int,
    rack: str | None,
    *,
    cluster_id: str,
    cluster_defaults: Mapping[str, str],
    minimum_leader_epochs: Mapping[TopicPartition, int],
) -> Plan[None]:
    """Plans the broker's registration and, in the same transaction, a higher leader epoch for each partition that it
    leads.

    The epoch tells a client that was ahead of a log which lost its tail in a crash (KIP-320). `cluster_defaults`: the
    settings of a new cluster for all its brokers. `minimum_leader_epochs`: the lowest epoch that a partition may get,
    for logs with higher epochs than the store.
    """
    changes = [put_broker(broker_id, host, port, rack)]
    if image.cluster_id != cluster_id:
        changes.append(put_cluster(cluster_id))
        changes.append(put_configs(ResourceType.BROKER, "", cluster_defaults))
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader == broker_id:
                minimum = minimum_leader_epochs.get(TopicPartition(topic.name, partition.index), 0)
                epoch = LeaderEpoch(max(partition.leader_epoch + 1, minimum))
                changes.append(put_partition(topic.topic_id, replace(partition, leader_epoch=epoch)))
    return Plan(None, changes)
