"""What clients of a replicated partition may be told by a leader that has not heard of its successor.

Such a leader answers reads from what it knows, and a former coordinator from its memory, as in Apache Kafka. So some
checks of answers depend on which broker has answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tests.simulation.brokers.client_world import OutdatedLeader
from tests.simulation.clusters.world import ClusterWorld

from klamm.core.coordinator.java_hash import partition_for
from klamm.metadata.image import MetadataImage, PartitionImage
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.clusters.replica_checks import ReplicaChecks

    from klamm.broker.partitions.partition import Partition
    from klamm.client.config import Address

__all__ = ["FormerLeaders"]


class FormerLeaders(ClusterWorld):
    """A world of brokers in which a former leader may answer."""

    checks: ReplicaChecks
    """The checks of the replicas, which also follow the metadata."""

    def outdated_leaders(self, where: TopicPartition) -> Mapping[BrokerId, OutdatedLeader]:
        """See `ClientWorld.outdated_leaders`. A leader that has not heard of its successor answers from its own log, up
        to its own high watermark, as Kafka's does (`Partition.fetchOffsetForTimestamp` of Apache Kafka 4.3)."""
        epoch = self._image().topics[where.topic].partitions[where.partition].leader_epoch
        return {
            number: OutdatedLeader(partition.leader_epoch, partition.log.high_watermark)
            for number in self.machines
            if (partition := self._copy(number, where)) is not None
            and partition.leads
            and partition.leader_epoch < epoch
        }

    def may_lack_committed(self, where: TopicPartition, epoch: int, address: Address) -> bool:
        """See `ClientWorld.may_lack_committed`. A leader that has not heard of its successor lacks what the successor
        has committed, and denies that these offsets exist, as Kafka's does. Java's consumer does not ask it, because
        the group's offset names a newer leader epoch (KIP-320). Clients of these worlds commit no leader epochs.

        A leader whose session has timed out must not deny an offset: it knows by its clock that another broker may
        lead. What holds when the request is sent is enough. The leader answers only in the epoch that the request
        names, and if it had no successor then, it has all records that were committed before the request.
        """
        newest = self._image().topics[where.topic].partitions[where.partition].leader_epoch
        session = self._sessions[BrokerId(self.addresses.index(address) + 1)]
        return epoch == self._known_epoch(where, address) < newest and not session.has_timed_out

    def newest_epoch_at(self, where: TopicPartition, address: Address) -> int:
        """A leader that does not hear of the next one, because it has no session, say, answers reads until it does."""
        return min(self._known_epoch(where, address), super().newest_epoch_at(where, address))

    def _known_epoch(self, where: TopicPartition, address: Address) -> int:
        """Returns a partition's leader epoch in the metadata of the broker at this address; -1 if there is none."""
        context = self.machine_at(address).context
        topic = None if context is None else context.metadata.image.topics.get(where.topic)
        return -1 if topic is None else topic.partitions[where.partition].leader_epoch

    def coordinator_term(self, group_id: str, address: Address) -> object | None:
        """The term also has the leader epoch: a former coordinator may answer, and the next one may know of more."""
        found, term = self._offsets_partition(group_id), super().coordinator_term(group_id, address)
        if found is None or term is None or self.addresses.index(address) + 1 != found.leader:
            return None
        binds_next = self.checks.binds_next_leader(TopicPartition(OFFSETS_TOPIC, found.index))
        return (term, found.leader_epoch) if binds_next else None

    def _image(self) -> MetadataImage:
        return self.checks.image

    def _offsets_partition(self, group_id: str) -> PartitionImage | None:
        """Returns a group's partition of `__consumer_offsets`, according to the metadata."""
        topic = self._image().topics.get(OFFSETS_TOPIC)
        return None if topic is None else topic.partitions[partition_for(group_id, len(topic.partitions))]

    def _copies(self, where: TopicPartition) -> Iterator[Partition]:
        for number in self.machines:
            if (partition := self._copy(number, where)) is not None:
                yield partition

    def _copy(self, number: BrokerId, where: TopicPartition) -> Partition | None:
        context = self.machines[number].context
        led = None if context is None else context.partitions.by_name.get(where.topic)
        return None if led is None else led.partitions[where.partition]
