"""Keeps the eligible leader replicas true when `min.insync.replicas` changes (KIP-966).

An eligible leader replica holds every committed record, because nothing was committed with fewer in-sync replicas than
`min.insync.replicas` since it left. With a lower value this is not true any more. So the eligible leader replicas of
all partitions concerned are removed before the new value counts. And a change that makes a replica eligible depends on
the entries in which the value lies.

Source: `ReplicationControlManager.maybeClearElr…` and `ClearElrRecord` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from klamm.metadata.entries import config_key, put_partition, topic_key
from klamm.metadata.image import MetadataImage, PartitionImage, ResourceType, TopicImage
from klamm.metadata.metadata_store import Change

__all__ = ["clearing", "is_changed", "rule_keys", "topics_with_default"]

_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def rule_keys(topic: TopicImage, changed: PartitionImage) -> Iterable[str]:
    """Returns the keys on which the eligible leader replicas of a changed partition depend."""
    return (topic_key(topic.name), config_key(ResourceType.BROKER, "")) if changed.elr else ()


def topics_with_default(image: MetadataImage) -> Iterator[TopicImage]:
    """Yields the topics whose value is the default of the cluster."""
    for topic in image.topics.values():
        if _MIN_INSYNC_REPLICAS not in topic.configs:
            yield topic


def clearing(topics: Iterable[TopicImage]) -> Iterator[Change]:
    """Yields the changes that remove the eligible leader replicas of these topics, each valid without the others."""
    for topic in topics:
        for partition in topic.partitions:
            if partition.elr:
                cleared = replace(partition, elr=(), partition_epoch=partition.partition_epoch + 1)
                yield put_partition(topic.topic_id, cleared)


def is_changed(present: Mapping[str, str], merged: Mapping[str, str]) -> bool:
    """Returns whether overrides change the value."""
    return present.get(_MIN_INSYNC_REPLICAS) != merged.get(_MIN_INSYNC_REPLICAS)
