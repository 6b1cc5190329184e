"""The planner's queries to the cluster: start and end of partitions, offsets by time, topics and their ids."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from klamm.client.cluster import Cluster
from klamm.client.list_offsets import EARLIEST, LATEST, latest_offsets, list_offsets
from klamm.client.topic_listing import list_topics
from klamm.protocol.types import ZERO_TOPIC_ID, LeaderEpoch, Millis, TopicId, TopicPartition
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.offsets import PartitionOffsets
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.options.subscription import Subscription
from klamm.spark.source.planning.planner import LogOffsets, Planner, Restriction

__all__ = ["SubscribedOffsets", "planner_for"]


def planner_for(log: LogOffsets, options: SourceOptions, restriction: Restriction | None = None) -> Planner:
    """Returns the planner of one batch read, with its filters, or of one run of a streaming query."""
    return Planner(
        log,
        LossPolicy(fail=options.fail_on_data_loss),
        time.sleep,
        division=options.division,
        retries=options.offset_retries,
        restriction=restriction,
    )


class SubscribedOffsets:
    """The implementation of `LogOffsets` with klamm's client."""

    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._missing: tuple[str | TopicPartition, ...] = ()
        self._topic_ids: dict[str, TopicId] = {}
        """The id of each topic when it was first seen."""

    def latest(self) -> PartitionOffsets:
        """Returns the end of each subscribed partition that exists now.

        Takes one round trip when nothing has changed, and one more for a pattern."""
        assigned = self._subscription.partitions
        if assigned:
            # A partition that was missing before may exist now; only a refresh shows it.
            if absent := {partition.topic for partition in assigned if not self._cluster.has(partition)}:
                self._cluster.refresh(absent)
            found = self._listed(dict.fromkeys(assigned, LATEST))
            self._missing = tuple(partition for partition in assigned if partition not in found)
        else:
            topics = self._topics()
            found = latest_offsets(self._cluster, topics) if topics else {}
            existing = {topic_partition.topic for topic_partition in found}
            # A deleted topic that matched the pattern before is not missing: it was not subscribed to by name.
            self._missing = tuple(topic for topic in self._subscription.topics if topic not in existing)
        self._remember(topic_partition.topic for topic_partition in found)
        return found

    def doubt(self) -> None:
        """Asks another broker each time for the leaders, before `latest` is called again because of its result.

        An old leader that is cut off from the other brokers may still answer, and name itself as the leader.
        """
        self._cluster.turn()
        self._cluster.refresh(self._topic_ids)

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """Returns the start of each of these partitions that exists."""
        return self._listed(dict.fromkeys(topic_partitions, EARLIEST))

    def at(self, timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        """Returns the offset of each partition's first record at its time or later; -1 if there is none."""
        return self._listed(timestamps_ms)

    def last(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """Returns the end of each of these partitions that exists, records of open transactions included."""
        asked = dict.fromkeys(topic_partitions, LATEST)
        listed = list_offsets(self._cluster, asked, isolation_level="read_uncommitted")
        return {topic_partition: found.offset for topic_partition, found in listed.items()}

    def missing(self) -> Collection[str | TopicPartition]:
        """Returns the subscribed topics or partitions that `latest` did not find."""
        return self._missing

    def know(self, topics: Collection[str]) -> None:
        """Fetches the ids and leaders of those of the topics that are not known yet."""
        self._cluster.ensure(topics)
        self._remember(topics)

    def topic_id(self, topic: str) -> TopicId | None:
        """Returns the topic's id when it was first seen; None if brokers give none."""
        return self._topic_ids.get(topic)

    def leader_epoch(self, topic_partition: TopicPartition) -> LeaderEpoch:
        """Returns the newest known leader epoch of the partition; -1 if none is known."""
        return self._cluster.epoch_of(topic_partition)

    def made_anew(self) -> Collection[str]:
        """Returns the topics that have another id than when they were first seen. Takes one round trip.

        Returns each recreated topic once; its new id is the known one from then on.
        """
        known = dict(self._topic_ids)
        self._cluster.refresh(known)
        self._topic_ids.clear()
        self._remember(known)
        # A topic that is missing now may be recreated with another id.
        self._topic_ids = {**known, **self._topic_ids}
        return [topic for topic, topic_id in known.items() if self._topic_ids[topic] != topic_id]

    def _topics(self) -> Collection[str]:
        if self._subscription.pattern is None:
            return self._subscription.topics
        return [topic for topic in list_topics(self._cluster) if self._subscription.fits(topic)]

    def _remember(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if topic in self._topic_ids:
                continue
            described = self._cluster.topic(topic)
            if described is not None and described.topic_id != ZERO_TOPIC_ID:
                self._topic_ids[topic] = described.topic_id

    def _listed(self, timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        listed = list_offsets(self._cluster, timestamps_ms)
        return {topic_partition: found.offset for topic_partition, found in listed.items()}
