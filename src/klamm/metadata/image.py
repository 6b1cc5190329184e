"""An immutable image of the metadata at one revision of the metadata store: topics, brokers and configs.

A new revision makes a new image, which shares all unchanged objects with the old one. Keeping an old image therefore
costs nothing, and two images can be compared by identity: a topic that is the same object has not changed. Kafka's
counterpart is `MetadataImage` (KIP-631).
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
    "NO_EPOCH",
    "BrokerImage",
    "Endpoint",
    "LiveBroker",
    "MetadataImage",
    "PartitionImage",
    "ResourceType",
    "TopicImage",
]

NO_BROKER: Final = BrokerId(-1)
NO_EPOCH: Final = -1
_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_ENDPOINTS: Final[Mapping[str, Endpoint]] = MappingProxyType({})


class ResourceType(IntEnum):
    """The type of a resource with config overrides: `org.apache.kafka.common.config.ConfigResource.Type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """The leader and the replicas of a partition. `leader` is -1 while it has none."""

    index: PartitionIndex
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    """All replicas, the preferred leader first. During a reassignment also those that are added or removed."""
    isr: tuple[BrokerId, ...]
    partition_epoch: int = 0
    """Rises with every change of the partition, while the leader epoch rises with every new leader (KIP-497)."""
    elr: tuple[BrokerId, ...] = ()
    """The eligible leader replicas (KIP-966): they are not in sync, but hold every committed record."""
    last_known_leader: BrokerId = NO_BROKER
    """The last leader of a partition without leader, whose `isr` and `elr` are empty (KIP-966); -1 for none."""
    adding: tuple[BrokerId, ...] = ()
    """The replicas that a reassignment adds."""
    removing: tuple[BrokerId, ...] = ()
    """The replicas that a reassignment removes when it ends."""
    is_recovering: bool = False
    """Whether an unclean election made the leader, which has not reported the end of its recovery (KIP-704)."""


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: `partitions[i].index == i`, `configs` are its own overrides only."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """Whether pattern subscriptions of consumers leave the topic out, by Kafka's list of names."""
        return is_internal(self.name)


class Endpoint(NamedTuple):
    """An address at which a listener of a broker is reached."""

    host: str
    port: int


class BrokerImage(NamedTuple):
    """A registered broker. `host` and `port` are those of its first listener."""

    id: BrokerId
    host: str
    port: int
    rack: str | None
    epoch: int
    """The revision that made the broker live: it rises with every start (KIP-497). `NO_EPOCH` if it is not live."""
    endpoints: Mapping[str, Endpoint] = _NO_ENDPOINTS
    """By listener name. Empty for a registration by an earlier version."""
    incarnation: str = ""
    """The id of the broker's present run, "" if it is not live."""
    is_stopping: bool = False
    """Whether the broker hands its partitions over, because it is about to stop (KIP-841)."""
    metadata_version: int = 1
    """The highest metadata version that the broker's program knows."""
    latest_run: str = ""
    """The incarnation of the run that has registered last, which may have ended. "" if it is not known."""

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Returns the address of the broker's listener of that name, None if it has no such listener."""
        return self.endpoints.get(listener_name)


class LiveBroker(NamedTuple):
    """An entry `live/<id>`: the broker's run, and the revision that made it live."""

    incarnation: str
    epoch: int
    is_stopping: bool = False


@dataclass(frozen=True, slots=True, eq=True)
class MetadataImage:
    """All metadata at `revision`. Readers must not change the mappings."""

    revision: int = 0
    cluster_id: str = ""
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    names_by_collision_key: Mapping[str, str] = field(default_factory=dict)
    """Topic names by the name with '_' for '.': Kafka refuses two topics that differ only in these characters."""
    brokers: Mapping[BrokerId, BrokerImage] = field(default_factory=dict)
    """The live brokers. An unregistered broker stays until it has stopped, marked as stopping and without endpoints."""
    registrations: Mapping[BrokerId, BrokerImage] = field(default_factory=dict)
    """All brokers of the cluster, live or not."""
    live: Mapping[BrokerId, LiveBroker] = field(default_factory=dict)
    """The sessions of brokers, also of those without a registration."""
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)
    """The overrides of all resources except topics, which have their own."""
    next_producer_id: int = 0
    """The first producer id that is in no allocated block yet."""
    next_broker_id: int = 0
    """Every broker id that was allocated is lower."""
    metadata_version: int = 0
    """The version of the kinds of entries that brokers may write (see `metadata_version`)."""
    parts: Mapping[TopicId, Mapping[PartitionIndex, PartitionImage]] = field(default_factory=dict)
    """Partitions that do not exist: their topic is missing, or has fewer partitions. They belong to a creation that is
    in progress, or are left over."""
    topic_configs_revision: int = field(default=0, compare=False)
    """The latest revision that this process has seen change the overrides of a topic. Two images tell with it whether
    any topic has other overrides, without a look at each topic."""

    @property
    def controller_id(self) -> BrokerId:
        """The broker that elects leaders, and to which clients send administrative requests; -1 without brokers.

        Any broker can do it, so it is the lowest id. A broker that is about to stop does not count unless all are: it
        ends its work before its session ends, and no broker would elect leaders in between.
        """
        running = (broker.id for broker in self.brokers.values() if not broker.is_stopping)
        return min(running, default=min(self.brokers, default=NO_BROKER))

    def config_overrides(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Returns the overrides of this resource itself, an empty mapping if there are none or the resource does not
        exist.

        Broker resources are named by the id in decimal digits; "" is the default of the whole cluster.
        """
        if resource_type == ResourceType.TOPIC:
            topic = self.topics.get(name)
            return _NO_CONFIGS if topic is None else topic.configs
        return self.configs.get((resource_type, name), _NO_CONFIGS)


EMPTY_IMAGE: Final = MetadataImage()
