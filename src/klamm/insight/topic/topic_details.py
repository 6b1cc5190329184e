"""All that a cluster tells about the partitions of topics: metadata, settings, and how far the replicas came."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from klamm.insight.cluster.moving_partitions import reassignments_in_progress
from klamm.insight.cluster.replica_positions import PartitionPositions, replica_positions
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.errors import ClusterError, NotOffered
from klamm.insight.topic.partition_states import (
    PartitionState,
    TopicState,
    partition_states,
    topic_states_of_librdkafka,
)
from klamm.insight.topic.topic_settings import TopicSettings, topic_settings
from klamm.insight.words import PartitionKey

__all__ = ["PartitionFilter", "TopicDetails", "read_topics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """Chooses partitions that need attention: those with any of the named properties. Without one, it chooses all."""

    under_replicated: bool = False
    under_min_isr: bool = False
    unavailable: bool = False

    @property
    def chooses_all(self) -> bool:
        """Whether no property is named."""
        return not (self.under_replicated or self.under_min_isr or self.unavailable)

    def chooses(self, state: PartitionState, adding: Collection[int], minimum: int | None) -> bool:
        """Returns whether the partition is chosen. `adding`: the replicas that a reassignment adds now.

        Raises ClusterError if `min.insync.replicas` is needed and not known.
        """
        if self.under_min_isr and minimum is None:
            raise ClusterError(f"the cluster does not tell min.insync.replicas of topic {state.topic}")
        return (
            self.chooses_all
            or (self.under_replicated and state.is_under_replicated(adding))
            or (self.under_min_isr and minimum is not None and state.is_under_min_isr(minimum))
            or (self.unavailable and state.is_unavailable)
        )


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """Topics by name, and their chosen partitions."""

    topics: Mapping[str, TopicState]
    partitions: list[PartitionState]
    settings: Mapping[str, TopicSettings] = field(default_factory=dict)
    """Without topics whose configuration may not be described."""
    positions: Mapping[PartitionKey, PartitionPositions] = field(default_factory=dict)
    """Of the chosen partitions."""


def read_topics(
    access: ClusterAccess, topics: Collection[str] | None, chosen: PartitionFilter, *, asks_followers: bool = False
) -> TopicDetails:
    """Returns the named topics, or all (None). `asks_followers`: see `replica_positions`.

    Of clusters before Apache Kafka 3.8, and with security properties that only librdkafka supports, only the metadata
    are known. Raises ClusterError for a topic that does not exist.
    """
    try:
        with ClusterRequests(access) as requests:
            states = partition_states(requests, topics)
            settings = topic_settings(requests, list(states))
            moving = {} if chosen.chooses_all else reassignments_in_progress(requests)
            adding = {key: each.adding for key, each in moving.items()}
            partitions = _chosen(states, chosen, adding, settings)
            positions = replica_positions(requests, partitions, asks_followers=asks_followers)
            return TopicDetails(states, partitions, settings, positions)
    except NotOffered:
        states = topic_states_of_librdkafka(access, topics)
        return TopicDetails(states, _chosen(states, chosen, {}, {}))


def _chosen(
    topics: Mapping[str, TopicState],
    chosen: PartitionFilter,
    adding: Mapping[PartitionKey, Collection[int]],
    settings: Mapping[str, TopicSettings],
) -> list[PartitionState]:
    minimum = {name: each.min_insync_replicas for name, each in settings.items()}
    return [
        state
        for topic in topics.values()
        for state in topic.partitions
        if chosen.chooses(state, adding.get(state.key, ()), minimum.get(state.topic))
    ]
