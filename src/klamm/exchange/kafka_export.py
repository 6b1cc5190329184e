"""Exports klamm's metadata as the bootstrap records of an Apache Kafka cluster.

The finalized features are those of Kafka 4.0, so that every 4.x can open it; `kafka-features upgrade` can raise them
later. Without eligible leader replicas (KIP-966), a broker that registers for the first time becomes leader of the
partitions on its disk, whether or not its last shutdown was clean.

Source: `image/TopicImage.java`, `image/ConfigurationsImage.java` (`write`),
`controller/ReplicationControlManager.handleBrokerShutdown` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from klamm.metadata.image import MetadataImage, ResourceType, TopicImage
from klamm.protocol.metadata_records import MetadataRecord
from klamm.protocol.schema.config_record import ConfigRecord
from klamm.protocol.schema.feature_level_record import FeatureLevelRecord
from klamm.protocol.schema.partition_record import PartitionRecord
from klamm.protocol.schema.producer_ids_record import ProducerIdsRecord
from klamm.protocol.schema.topic_record import TopicRecord
from klamm.protocol.types import BrokerId

__all__ = ["Export", "FEATURES", "export_metadata"]

FEATURES: Final[Mapping[str, int]] = {"metadata.version": 25, "group.version": 1, "transaction.version": 2}
"""4.0-IV3, the consumer protocol, transactions of version 2 (KIP-890)."""

_NO_BROKER_EPOCH: Final = -1


class Export(NamedTuple):
    """The records, and descriptions of what has no counterpart in Kafka."""

    records: list[MetadataRecord]
    left_behind: list[str]


def export_metadata(
    image: MetadataImage,
    *,
    node_id: BrokerId,
    directory_id: bytes,
    known_keys: Mapping[int, Collection[str]],
) -> Export:
    """Returns the bootstrap records of a cluster with this one node, which leads all partitions from the directory.

    `known_keys` has the configuration keys that Kafka knows, by type of resource; others are left out.
    """
    records = [
        MetadataRecord(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in FEATURES.items()
    ]
    left_behind: list[str] = []
    for topic in image.topics.values():
        records.append(MetadataRecord(TopicRecord(name=topic.name, topic_id=topic.topic_id), 0))
        records.extend(_partitions(topic, node_id, directory_id))
        records.extend(_configs(ResourceType.TOPIC, topic.name, topic.configs, known_keys, left_behind))
    for (resource_type, name), configs in image.configs.items():
        records.extend(_configs(resource_type, name, configs, known_keys, left_behind))
    if image.next_producer_id:
        record = ProducerIdsRecord(
            broker_id=node_id, broker_epoch=_NO_BROKER_EPOCH, next_producer_id=image.next_producer_id
        )
        records.append(MetadataRecord(record, 0))
    return Export(records, left_behind)


def _partitions(topic: TopicImage, node_id: BrokerId, directory_id: bytes) -> Iterator[MetadataRecord]:
    for partition in topic.partitions:
        record = PartitionRecord(
            partition_id=partition.index,
            topic_id=topic.topic_id,
            replicas=[node_id],
            isr=[node_id],
            leader=node_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=0,
            directories=[directory_id],
        )
        yield MetadataRecord(record, 1)


def _configs(
    resource_type: int,
    name: str,
    configs: Mapping[str, str],
    known_keys: Mapping[int, Collection[str]],
    left_behind: list[str],
) -> Iterator[MetadataRecord]:
    known = known_keys.get(resource_type, ())
    kind = ResourceType(resource_type).name
    for key, value in configs.items():
        if key in known:
            record = ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
            yield MetadataRecord(record, 0)
        else:
            left_behind.append(f"{key}={value} of {kind} {name or '(all)'}, a key of klamm's own")
