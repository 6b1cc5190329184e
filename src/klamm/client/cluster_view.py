"""A client's metadata of a cluster (brokers, topics, leaders), without the connections to it.

Caches the last Metadata responses. A caller that meets an error caused by a change (NOT_LEADER_OR_FOLLOWER,
UNKNOWN_TOPIC_OR_PARTITION, a broken connection …) refreshes the metadata and retries. `cluster.py` and
`aio_cluster.py` add the connections.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

from klamm.client.config import Address, ClientConfig
from klamm.client.errors import ConnectionFailed, RequestRefused
from klamm.client.operations import Ask, Pause, Steps
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.node_endpoint import NodeEndpoint
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse, MetadataResponseTopic
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition

__all__ = ["ClusterView", "PartitionLeader", "TopicMetadata", "error_code"]

_NO_LEADER = BrokerId(-1)
_NO_EPOCH = LeaderEpoch(-1)


class PartitionLeader(NamedTuple):
    """The leader of a partition; `broker` is -1 while there is none."""

    broker: BrokerId
    epoch: LeaderEpoch


class TopicMetadata(NamedTuple):
    """A topic as the cluster described it; partition p is at index p."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionLeader, ...]


def error_code(number: int) -> ErrorCode:
    """Returns the code of a number from the wire; UNKNOWN_SERVER_ERROR for a number that this client does not know."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class ClusterView:
    """One client's metadata of one cluster. Not thread-safe."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.cluster_id: str | None = None
        self._addresses: dict[BrokerId, Address] = {}
        self._topics: dict[str, TopicMetadata] = {}

    def topic(self, name: str) -> TopicMetadata | None:
        """Returns the cached metadata of the topic; None if it does not exist."""
        return self._topics.get(name)

    def forget_topic(self, name: str) -> None:
        """Removes the cached metadata of the topic."""
        self._topics.pop(name, None)

    def has(self, topic_partition: TopicPartition) -> bool:
        """Returns whether the cached metadata contain the partition."""
        topic = self._topics.get(topic_partition.topic)
        return topic is not None and topic_partition.partition < len(topic.partitions)

    def name_of(self, topic_id: TopicId) -> str | None:
        """Returns the name of the topic with this id; None if it is not cached."""
        return next((topic.name for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def leader_of(self, topic_partition: TopicPartition) -> PartitionLeader | None:
        """Returns the cached leader of the partition; None if there is no leader, or no such partition."""
        if not self.has(topic_partition):
            return None
        leader = self._topics[topic_partition.topic].partitions[topic_partition.partition]
        return leader if leader.broker in self._addresses else None

    def epoch_of(self, topic_partition: TopicPartition) -> LeaderEpoch:
        """Returns the newest known leader epoch of the partition; -1 if none is known."""
        if not self.has(topic_partition):
            return _NO_EPOCH
        return self._topics[topic_partition.topic].partitions[topic_partition.partition].epoch

    def brokers(self) -> list[BrokerId]:
        """Returns all brokers in the last Metadata response."""
        return sorted(self._addresses)

    def address_of(self, broker: BrokerId) -> Address:
        """Returns a broker's address. Raises `ConnectionFailed` for a broker that the last Metadata response does not
        list."""
        address = self._addresses.get(broker)
        if address is None:
            raise ConnectionFailed(f"the cluster names no broker {broker} any more")
        return address

    def addresses(self) -> list[Address]:
        """Returns the addresses to find any broker: known brokers in random order, then the bootstrap servers."""
        known = list(self._addresses.values())
        random.shuffle(known)
        return list(dict.fromkeys([*known, *self.config.bootstrap_servers]))

    def missing(self, topics: Iterable[str]) -> list[str]:
        """Returns those of the topics whose metadata are not cached."""
        return [name for name in topics if name not in self._topics]

    def refreshing(self, topics: Iterable[str]) -> Steps[None]:
        """Yields the steps of `Cluster.refresh`."""
        wanted = sorted(set(topics))
        operation = f"learn the partitions of {', '.join(wanted)}" if wanted else "learn of the brokers"
        # Before version 4 the request can't forbid the creation of missing topics; no broker in use is that old.
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in wanted], allow_auto_topic_creation=False
        )
        retries = Retries(self.config, operation)
        while True:
            (answer,) = yield Ask([(None, request)], MetadataResponse)
            if not isinstance(answer, ConnectionFailed):
                for name, code in self.apply(answer, wanted).items():
                    raise RequestRefused(code, f"the cluster does not describe the topic {name!r}")
                return
            yield Pause(retries.next_pause_s(answer))

    def apply(self, answer: MetadataResponse, wanted: Iterable[str]) -> dict[str, ErrorCode]:
        """Replaces the metadata of these topics by those of a response.

        Topics that don't exist are forgotten. A leader of an older epoch than the cached one is ignored: the response
        comes from a broker whose metadata are old (`Metadata.updateLatestMetadata` of Apache Kafka). Returns the topics
        that the cluster does not describe for another reason.
        """
        self.cluster_id = answer.cluster_id
        if answer.brokers:
            self._addresses = {BrokerId(broker.node_id): (broker.host, broker.port) for broker in answer.brokers}
        before = {name: known for name in wanted if (known := self._topics.pop(name, None)) is not None}
        refused: dict[str, ErrorCode] = {}
        for topic in answer.topics:
            code = error_code(topic.error_code)
            if code is ErrorCode.NONE:
                self._apply_topic(topic, before.get(topic.name or ""))
            elif code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
                refused[topic.name or ""] = code
        return refused

    def note_leader(
        self, topic_partition: TopicPartition, leader: PartitionLeader, endpoints: Iterable[NodeEndpoint]
    ) -> bool:
        """Notes the leader that a Produce or Fetch response names (KIP-951), unless the cached one is as new.

        Returns whether the leader is a new one with a known address.
        """
        self._addresses.update({endpoint.node_id: (endpoint.host, endpoint.port) for endpoint in endpoints})
        topic = self._topics.get(topic_partition.topic)
        index = topic_partition.partition
        if topic is None or index >= len(topic.partitions) or leader.epoch <= topic.partitions[index].epoch:
            return False
        partitions = (*topic.partitions[:index], leader, *topic.partitions[index + 1 :])
        self._topics[topic.name] = topic._replace(partitions=partitions)
        return leader.broker in self._addresses

    def expect_epoch(self, topic_partition: TopicPartition, epoch: LeaderEpoch) -> None:
        """Forgets the cached leader of the partition if its epoch is older than this one.

        Another client knows of the newer leader. The old one may still answer, and lacks what the newer one has. So the
        partition has no leader here until the metadata tell one of this epoch or a later one.
        """
        if self.has(topic_partition):
            topic, index = self._topics[topic_partition.topic], topic_partition.partition
            if topic.partitions[index].epoch < epoch:
                unknown = PartitionLeader(_NO_LEADER, epoch)
                partitions = (*topic.partitions[:index], unknown, *topic.partitions[index + 1 :])
                self._topics[topic.name] = topic._replace(partitions=partitions)

    def _apply_topic(self, topic: MetadataResponseTopic, before: TopicMetadata | None) -> None:
        name = topic.name or ""
        topic_id = TopicId(bytes(topic.topic_id or ZERO_TOPIC_ID))
        leaders = [PartitionLeader(_NO_LEADER, _NO_EPOCH)] * len(topic.partitions)
        for partition in topic.partitions:
            if 0 <= partition.partition_index < len(leaders):
                leaders[partition.partition_index] = PartitionLeader(
                    BrokerId(partition.leader_id), LeaderEpoch(partition.leader_epoch)
                )
        # Without an id, the topic may be another one of the same name, whose epochs begin at 0.
        if before is not None and before.topic_id == topic_id != ZERO_TOPIC_ID:
            known = before.partitions[: len(leaders)]
            leaders[: len(known)] = [max(pair, key=_epoch) for pair in zip(leaders, known, strict=False)]
        self._topics[name] = TopicMetadata(name, topic_id, tuple(leaders))


def _epoch(leader: PartitionLeader) -> LeaderEpoch:
    return leader.epoch
