"""What the planner asks of the cluster: where the partitions begin and end, which offset a time has, which topics
there are and whether they are still the same."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from klamm.client.cluster import Cluster
from klamm.client.list_offsets import EARLIEST, LATEST, latest_offsets, list_offsets
from klamm.client.topic_listing import list_topics
from klamm.protocol.types import ZERO_TOPIC_ID, Millis, TopicId, TopicPartition
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.offsets import PartitionOffsets
from klamm.spark.source.options import SourceOptions
from klamm.spark.source.planner import LogOffsets, Planner, Restriction
from klamm.spark.source.subscription import Subscription

__all__ = ["SubscribedOffsets", "planner_for"]


def planner_for(log: LogOffsets, options: SourceOptions, restriction: Restriction | None = None) -> Planner:
    """The planner of one read, with its filters, or of one run of a query."""
    return Planner(
        log,
        LossPolicy(fail=options.fail_on_data_loss),
        time.sleep,
        division=options.division,
        retries=options.offset_retries,
        restriction=restriction,
    )


class SubscribedOffsets:
    """`LogOffsets` over the client; see there."""

    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._missing: tuple[str | TopicPartition, ...] = ()
        self._topic_ids: dict[str, TopicId] = {}
        """Of each topic, the id that it had when it was first seen."""

    def latest(self) -> PartitionOffsets:
        """The end of each subscribed partition that exists now: one round trip when nothing has changed, and one more
        for a pattern."""
        assigned = self._subscription.partitions
        if assigned:
            # What was not there a moment ago may be there now; nobody would tell.
            if absent := {partition.topic for partition in assigned if not self._cluster.has(partition)}:
                self._cluster.refresh(absent)
            found = self._listed(dict.fromkeys(assigned, LATEST))
            self._missing = tuple(partition for partition in assigned if partition not in found)
        else:
            topics = self._topics()
            found = latest_offsets(self._cluster, topics) if topics else {}
            existing = {topic_partition.topic for topic_partition in found}
            # A topic that fitted the pattern a moment ago and is gone was never asked for.
            self._missing = tuple(topic for topic in self._subscription.topics if topic not in existing)
        self._remember(topic_partition.topic for topic_partition in found)
        return found

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """The start of each of these partitions that exists."""
        return self._listed(dict.fromkeys(topic_partitions, EARLIEST))

    def at(self, timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        """The first offset of each partition whose record is of this time or later; -1 where there is none."""
        return self._listed(timestamps_ms)

    def last(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """The end of each of these partitions that exists, records of transactions that are not finished included."""
        asked = dict.fromkeys(topic_partitions, LATEST)
        listed = list_offsets(self._cluster, asked, isolation_level="read_uncommitted")
        return {topic_partition: found.offset for topic_partition, found in listed.items()}

    def missing(self) -> Collection[str | TopicPartition]:
        """What `latest` did not find."""
        return self._missing

    def topic_id(self, topic: str) -> TopicId | None:
        """The id that the topic had when it was first seen; None if brokers give none."""
        return self._topic_ids.get(topic)

    def made_anew(self) -> Collection[str]:
        """The topics that have another id than when they were first seen. Asks the cluster: one round trip.

        Each is told of once; from then on the new topic is the one that is read.
        """
        known = dict(self._topic_ids)
        self._cluster.refresh(known)
        self._topic_ids.clear()
        self._remember(known)
        # One that is missing now may come back, as another.
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
