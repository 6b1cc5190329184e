"""The properties of the specification that concern the state of one broker at a time: what it leads, what it fetches,
and what it knows of the metadata.

The specification has them to catch its own mistakes (`ValidBrokerState`, `ValidReplicaState`, `ValidFetcherState`). In
klamm these states belong to several components, which follow the metadata one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.violation import Violation

from klamm.metadata.image import MetadataImage
from klamm.protocol.types import BrokerId, TopicId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.machine import Machine
    from tests.simulation.clusters.replica_checks import ReplicaChecks

    from klamm.broker.handler_context import BrokerContext

__all__ = ["ReplicaStates"]


class ReplicaStates:
    """The checks of the brokers' states in a world."""

    def __init__(self, checks: ReplicaChecks) -> None:
        self._checks = checks
        self._registered: set[tuple[BrokerId, str]] = set()
        """The runs of brokers that have been live."""
        self._seen_images: dict[BrokerId, tuple[int, str]] = {}

    def written(self, image: MetadataImage) -> None:
        """Takes over the brokers that are live after a commit."""
        self._registered.update((number, live.incarnation) for number, live in image.live.items())

    def look(self) -> None:
        """Checks the states of all brokers that serve. Raises Violation."""
        for number, machine in self._checks.machines.items():
            context = machine.context
            if context is None:
                continue
            if (number, context.metadata.incarnation) not in self._registered:
                raise Violation(6, f"broker {number} serves, and has not registered its run")
            self._check_leaderships(number, context)
            self._check_fetchers(number, machine, context)
            if self._checks.runs(number, machine):
                self._check_metadata(number, context)

    def _check_leaderships(self, number: BrokerId, context: BrokerContext) -> None:
        """Checks that a broker leads only what it should lead in its own metadata (`ValidReplicaState`)."""
        topics = context.metadata.image.topics
        for name, led in context.partitions.by_name.items():
            for partition in led.partitions:
                if partition is None or not partition.leads:
                    continue
                topic = topics.get(name)
                known = None if topic is None else topic.partitions[partition.index]
                # A leader that stays the leader takes over the next leader epoch a little later.
                if known is None or known.leader != number or known.leader_epoch < partition.leader_epoch:
                    raise Violation(6, f"broker {number} leads {partition}, and its metadata have {known}")

    def _check_fetchers(self, number: BrokerId, machine: Machine, context: BrokerContext) -> None:
        """Checks that a broker fetches a partition from one leader, which its metadata name, and none that it leads
        (`ValidFetcherState`)."""
        services = machine.services
        if services is None or services.replication is None or services.replication.fetchers._is_stopped:
            return  # The fetchers of a broker that stops send nothing more, and do not follow the metadata any more.
        known = context.metadata.image.topics_by_id
        sources: dict[tuple[TopicId, int], BrokerId] = {}
        for leader, fetcher in services.replication.fetchers._fetchers.items():
            for key in (*fetcher._fetch._positions, *fetcher._unsynced):
                if sources.setdefault(key, leader) != leader:
                    raise Violation(6, f"broker {number} fetches {key} from brokers {sources[key]} and {leader}")
        for (topic_id, index), leader in sources.items():
            topic = known.get(topic_id)
            partition = None if topic is None else topic.partitions[index]
            if topic is None or partition is None or partition.leader != leader:
                raise Violation(6, f"broker {number} fetches from broker {leader}, and its metadata have {partition}")
            led = context.partitions.by_name[topic.name].partitions[index]
            if led is not None and led.leads:
                raise Violation(
                    6, f"broker {number} leads {TopicPartition(topic.name, partition.index)} and fetches it"
                )

    def _check_metadata(self, number: BrokerId, context: BrokerContext) -> None:
        """Compares a broker's metadata with the store's (`MetadataLogMatching`)."""
        image, newest = context.metadata.image, self._checks.image
        seen = image.revision, context.metadata.incarnation
        if image.revision == newest.revision and self._seen_images.get(number) != seen:
            self._seen_images[number] = seen
            if image.topics != newest.topics or image.configs != newest.configs:
                raise Violation(6, f"broker {number} has other metadata than the store at revision {seen[0]}")

    def why_diverging(self) -> str | None:
        """Returns which broker does not have the newest metadata, or does not act on them yet; None if all do
        (`EventuallyMetadataConverges`).

        No proposal of in-sync replicas may be in progress either (`AlterPartitionEpochEventuallyReachedOrZero`).
        """
        newest = self._checks.image
        for number, machine in self._checks.machines.items():
            context = machine.context
            if context is None or context.metadata.image.revision != newest.revision:
                return f"broker {number} does not know revision {newest.revision}"
            for topic in newest.topics.values():
                led = context.partitions.by_name.get(topic.name)
                for image in topic.partitions:
                    partition = None if led is None else led.partitions[image.index]
                    is_leader = partition is not None and partition.leads
                    where = TopicPartition(topic.name, image.index)
                    if is_leader != (image.leader == number):
                        return f"broker {number} does not know that broker {image.leader} leads {where}"
                    if partition is None or not is_leader:
                        continue
                    if partition.image != image or partition.leader_epoch != image.leader_epoch:
                        return f"broker {number} leads {where} with {partition.image} instead of {image}"
                    if partition.followers is not None and partition.followers._proposed is not None:
                        return f"a proposal of broker {number} for {where} does not end"
        return None
