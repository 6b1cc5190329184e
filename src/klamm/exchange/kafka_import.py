"""Imports the metadata of an Apache Kafka cluster when klamm takes over one of its data directories.

Topics keep their names, ids, partitions, configuration and leader epochs, and the cluster keeps its next producer id.
Each partition then has one replica: the one in the directory, which must have every committed record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from klamm.errors import KlammError
from klamm.exchange.kafka_cluster import KafkaCluster, KafkaTopic
from klamm.metadata.entries import put_cluster, put_configs, put_features, put_partition, put_producer_ids, put_topic
from klamm.metadata.image import PartitionImage, ResourceType, TopicImage
from klamm.metadata.metadata_store import Change
from klamm.metadata.metadata_version import METADATA_VERSION
from klamm.protocol.internal_topic_names import SHARE_STATE_TOPIC
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicPartition

__all__ = ["Import", "ImportRefused", "plan_import"]

_SHOWN: Final = 10
_KINDS: Final = frozenset(map(int, ResourceType))

WhyRefused = Callable[[int, str, str], str | None]
"""Takes resource type, key and value. Returns why klamm can't accept the setting, or None."""


class ImportRefused(KlammError):
    """The directory can't be taken over in its current state. Nothing was changed."""


class Import(NamedTuple):
    """The entries of klamm's metadata store, and descriptions of what was left out."""

    changes: list[Change]
    topics: int
    partitions: int
    left_behind: list[str]


def plan_import(
    cluster: KafkaCluster,
    *,
    cluster_id: str,
    node_id: BrokerId,
    folders: Mapping[TopicPartition, TopicId],
    why_refused: WhyRefused,
) -> Import:
    """Returns the metadata store of a klamm broker for the partitions in `folders` (with the topic ids from there).

    Raises `ImportRefused` if a partition is not in the directory, or lacks committed records.
    """
    problems = [problem for topic in cluster.topics.values() for problem in _problems(topic, node_id, folders)]
    if problems:
        raise ImportRefused(
            "the directory does not have all records of the cluster: " + _some(problems) + ". A broker that holds all "
            "partitions in sync, in one directory, can be taken over"
        )
    left_behind: list[str] = []
    changes = [
        put_features(METADATA_VERSION),
        put_cluster(cluster_id),
        put_producer_ids(cluster.next_producer_id),
    ]
    partitions = 0
    for topic in sorted(cluster.topics.values(), key=lambda topic: topic.name):
        wanted = cluster.configs.get((ResourceType.TOPIC, topic.name), {})
        configs = _accepted(ResourceType.TOPIC, topic.name, wanted, why_refused, left_behind)
        changes.append(put_topic(TopicImage(topic.name, topic.topic_id, (), configs), len(topic.partitions)))
        for index, partition in sorted(topic.partitions.items()):
            epoch = LeaderEpoch(max(partition.leader_epoch, 0))
            image = PartitionImage(PartitionIndex(index), node_id, epoch, (node_id,), (node_id,))
            changes.append(put_partition(topic.topic_id, image))
        partitions += len(topic.partitions)
    for (resource_type, name), wanted in sorted(cluster.configs.items()):
        if resource_type == ResourceType.TOPIC:
            continue
        if resource_type == ResourceType.BROKER and name not in ("", str(node_id)):
            left_behind.append(f"{len(wanted)} settings of broker {name}")
            continue
        configs = _accepted(resource_type, name, wanted, why_refused, left_behind)
        if configs:
            changes.append(put_configs(resource_type, name, configs))
    left_behind.extend(_unknown_to_klamm(cluster, node_id))
    return Import(changes, len(cluster.topics), partitions, left_behind)


def _problems(topic: KafkaTopic, node_id: BrokerId, folders: Mapping[TopicPartition, TopicId]) -> Iterable[str]:
    if sorted(topic.partitions) != list(range(len(topic.partitions))):
        yield f"the metadata log lacks partitions of {topic.name}"
    for index, partition in sorted(topic.partitions.items()):
        name = TopicPartition(topic.name, PartitionIndex(index))
        found = folders.get(name)
        if found is None:
            yield f"{name} has no folder"
        elif found != topic.topic_id:
            yield f"the folder {name} is of another topic with that name"
        elif node_id not in partition.holders:
            yield f"broker {node_id} is not in sync for {name}"


def _some(problems: list[str]) -> str:
    more = f", and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more


def _accepted(
    resource_type: int, name: str, wanted: Mapping[str, str], why_refused: WhyRefused, left_behind: list[str]
) -> dict[str, str]:
    accepted = {}
    kind = ResourceType(resource_type).name.lower() if resource_type in _KINDS else f"resource of type {resource_type}"
    for key, value in sorted(wanted.items()):
        reason = why_refused(resource_type, key, value)
        if reason is None:
            accepted[key] = value
        else:
            left_behind.append(f"{key} of {kind} {name or '(all)'}: {reason}")
    return accepted


def _unknown_to_klamm(cluster: KafkaCluster, node_id: BrokerId) -> Iterable[str]:
    others = {
        broker
        for topic in cluster.topics.values()
        for partition in topic.partitions.values()
        for broker in partition.replicas
    } - {node_id}
    if others:
        yield f"the replicas on brokers {', '.join(map(str, sorted(others)))}: each partition has one from now on"
    for count, what in (
        (len(cluster.access_rules), "access control entries"),
        (len(cluster.scram_credentials), "SCRAM credentials"),
        (len(cluster.quotas), "client quotas"),
        (len(cluster.tokens), "delegation tokens"),
    ):
        if count:
            yield f"{count} {what}"
    if any(topic.name == SHARE_STATE_TOPIC for topic in cluster.topics.values()):
        yield f"share groups: their topic {SHARE_STATE_TOPIC} is kept, and not read"
