"""Keeps the eligible leader replicas true when `min.insync.replicas` changes (KIP-966).

An eligible leader replica holds every committed record, because nothing was committed with fewer in-sync replicas than
`min.insync.replicas` since it left. With a lower value this is not true any more. So the eligible leader replicas of
all partitions concerned are removed before the new value counts.

A replica may become eligible at the same moment, by a decision of another broker, in a partition that the change of the
value does not touch. So both transactions meet at one key, the configs of the cluster: the transaction that makes a
replica eligible writes them again, and each change of the value requires that they are as it has read them. The first
transaction also depends on the topic, whose override may be changed. The second of two such transactions is decided
again.

Source: KIP-966, and `ClearElrRecord` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from klamm.metadata.entries import config_key, put_partition, rewrite_configs
from klamm.metadata.image import MetadataImage, PartitionImage, ResourceType, TopicImage
from klamm.metadata.metadata_store import Change
from klamm.metadata.replicas.replica_rules import MIN_INSYNC_REPLICAS

__all__ = ["clearing", "guard_change", "guard_key", "is_changed", "makes_eligible", "topics_with_default"]


def makes_eligible(before: PartitionImage, changed: PartitionImage) -> bool:
    """Returns whether a replica becomes eligible. To keep or remove eligible ones needs no guard: a change of the value
    writes the partition."""
    return not set(changed.elr) <= set(before.elr)


def guard_change(image: MetadataImage) -> Change:
    """Returns the change that belongs to each transaction that makes a replica eligible, or elects a leader uncleanly.

    It keeps the configs. The transaction must also read the topic's entry.
    """
    return rewrite_configs(ResourceType.BROKER, "", image.config_overrides(ResourceType.BROKER, ""))


def guard_key() -> str:
    """Returns the key that a change of `min.insync.replicas` must read or write."""
    return config_key(ResourceType.BROKER, "")


def topics_with_default(image: MetadataImage) -> Iterator[TopicImage]:
    """Yields the topics whose value is the default of the cluster."""
    for topic in image.topics.values():
        if MIN_INSYNC_REPLICAS not in topic.configs:
            yield topic


def clearing(topics: Iterable[TopicImage]) -> dict[str, Change]:
    """Returns the changes, by key, that remove the eligible leader replicas of these topics. Each is valid without the
    others."""
    changes: dict[str, Change] = {}
    for topic in topics:
        for partition in topic.partitions:
            if partition.elr:
                cleared = replace(partition, elr=(), partition_epoch=partition.partition_epoch + 1)
                change = put_partition(topic.topic_id, cleared)
                changes[change.key] = change
    return changes


def is_changed(present: Mapping[str, str], merged: Mapping[str, str]) -> bool:
    """Returns whether overrides change the value."""
    return present.get(MIN_INSYNC_REPLICAS) != merged.get(MIN_INSYNC_REPLICAS)
