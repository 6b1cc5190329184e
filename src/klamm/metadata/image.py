"""What the cluster has agreed on, as of one revision of the metadata store: an immutable picture of topics, brokers
and configs.

A new revision makes a new picture that shares everything that did not change, so holding an old one is free and
comparing two is a matter of identity: a topic that is the same object has not changed. Kafka's counterpart is
`MetadataImage` (KIP-631).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from klamm.metadata.topic_name import is_internal
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

__all__ = [
    "EMPTY_IMAGE",
    "NO_BROKER",
    "BrokerImage",
    "MetadataImage",
    "PartitionImage",
    "ResourceType",
    "TopicImage",
]

NO_BROKER: Final = BrokerId(-1)
_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


class ResourceType(IntEnum):
    """What a config override belongs to: `org.apache.kafka.common.config.ConfigResource.Type`."""

    topic = 2
    broker = 4
    broker_logger = 8
    client_metrics = 16
    group = 32


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """Who leads a partition and who follows. `leader` is -1 while nobody does."""

    index: PartitionIndex
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: `partitions[i].index == i`, `configs` are its own overrides only."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """Whether consumers leave it out of pattern subscriptions, by Kafka's list of names."""
        return is_internal(self.name)


class BrokerImage(NamedTuple):
    """A registered broker. `epoch` is the revision that registered it: it rises with every start (KIP-497)."""

    id: BrokerId
    host: str
    port: int
    rack: str | None
    epoch: int


@dataclass(frozen=True, slots=True, eq=True)
class MetadataImage:
    """Everything at `revision`. The mappings must not be changed by who reads them."""

    revision: int = 0
    cluster_id: str = ""
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    names_by_collision_key: Mapping[str, str] = field(default_factory=dict)
    """Topic name by the name with '.' as '_': Kafka refuses two topics that differ only there."""
    brokers: Mapping[BrokerId, BrokerImage] = field(default_factory=dict)
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)
    """Overrides of all resources but topics, which carry their own."""
    next_producer_id: int = 0
    """The first producer id that no block handed out yet contains."""

    @property
    def controller_id(self) -> BrokerId:
        """The broker that clients send administration to; any broker will do, so it is the lowest id. -1 without
        brokers.
        """
        return min(self.brokers, default=NO_BROKER)

    def config_overrides(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set on this resource itself; empty when nothing was or when there is no such resource.

        Broker resources are named by the id in decimal digits, "" being the default of the whole cluster.
        """
        if resource_type == ResourceType.topic:
            topic = self.topics.get(name)
            return _NO_CONFIGS if topic is None else topic.configs
        return self.configs.get((resource_type, name), _NO_CONFIGS)


EMPTY_IMAGE: Final = MetadataImage()
