"""The replicas of partitions as they are when all reassignments in progress have ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from klamm.insight.cluster.moving_partitions import reassignments_in_progress
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.topic.partition_states import TopicState, partition_states
from klamm.insight.words import PartitionKey

__all__ = ["LastingReplicas", "lasting_replicas"]


class LastingReplicas(NamedTuple):
    """The topics, and the replicas that their partitions keep."""

    topics: Mapping[str, TopicState]
    replicas: Mapping[PartitionKey, tuple[int, ...]]
    """The preferred leader first."""
    moving: frozenset[PartitionKey]
    """The partitions of the cluster that move now."""


def lasting_replicas(requests: ClusterRequests, topics: Collection[str] | None) -> LastingReplicas:
    """Reads the named topics, or all (None).

    Apache Kafka's controller answers for the reassignments, and any broker for the metadata, perhaps later or earlier.
    So the replicas of a moving partition are those of its reassignment, and the reassignments are read before and after
    the metadata: the metadata of a partition that begins or ends to move in between have its old and its new replicas.

    Raises ClusterError, also for a topic that does not exist.
    """
    before = reassignments_in_progress(requests)
    states = partition_states(requests, topics)
    after = reassignments_in_progress(requests)
    moving = before | after
    replicas = {
        state.key: moving[state.key].target if state.key in moving else state.replicas
        for topic in states.values()
        for state in topic.partitions
    }
    return LastingReplicas(states, replicas, frozenset(after))
