"""Plans new replicas for the partitions of topics, from the present state of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from klamm.insight.cluster.cluster_layout import cordoned_brokers
from klamm.insight.cluster.cluster_picture import brokers_of
from klamm.insight.cluster.lasting_replicas import lasting_replicas
from klamm.insight.cluster.replica_plan import plan_replicas
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.errors import ClusterError
from klamm.insight.topic.partition_states import TopicState, missing_topic
from klamm.insight.words import PartitionKey

__all__ = ["PlanOptions", "changes_of", "plan_for"]

_INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The topics to plan for, and what their partitions are to have."""

    topics: Collection[str]
    internal: bool = False
    """Whether internal topics belong to them too."""
    brokers: Collection[int] | None = None
    """The only brokers that may have replicas; None for all."""
    replication_factor: int | None = None
    """None to keep the number of replicas of each partition."""


def plan_for(requests: ClusterRequests, options: PlanOptions) -> dict[PartitionKey, tuple[int, ...]]:
    """Returns the new replicas of the partitions that have to change. A partition that moves now is planned from where
    it moves to.

    Raises ImpossiblePlan, and ClusterError for topics and brokers that do not exist.
    """
    topics, present, _ = lasting_replicas(requests, None)
    for name in options.topics:
        if name not in topics:
            raise missing_topic(name)
    registered = {each.broker_id: each for each in brokers_of(requests)}
    for broker in options.brokers or ():
        if broker not in registered:
            raise ClusterError(f"there is no broker {broker}; `klamm cluster describe` shows the brokers")
    live = {broker for broker, each in registered.items() if not each.is_fenced}
    holders = {broker for replicas in present.values() for broker in replicas}
    allowed = registered.keys() | holders if options.brokers is None else set(options.brokers)
    chosen = {
        state.key: state
        for topic in topics.values()
        if topic.name in options.topics or (options.internal and _is_internal(topic))
        for state in topic.partitions
    }
    return plan_replicas(
        present,
        chosen,
        {broker: registered[broker].rack if broker in registered else None for broker in sorted(allowed)},
        options.replication_factor,
        down={broker for broker in allowed if broker not in live} | cordoned_brokers(requests, live),
        behind={key: set(present[key]).difference(state.isr) for key, state in chosen.items()},
    )


def changes_of(
    requests: ClusterRequests, plan: Mapping[PartitionKey, Sequence[int]]
) -> dict[PartitionKey, tuple[int, ...]]:
    """Returns the part of a plan that the cluster has not reached, and does not work on.

    Raises ClusterError for a topic or a partition that does not exist.
    """
    present = lasting_replicas(requests, {topic for topic, _ in plan}).replicas
    for topic, index in plan:
        if (topic, index) not in present:
            raise ClusterError(f"topic {topic} has no partition {index}")
    return {key: tuple(replicas) for key, replicas in plan.items() if tuple(replicas) != present[key]}


def _is_internal(topic: TopicState) -> bool:
    return topic.is_internal or topic.name.startswith(_INTERNAL_PREFIX)
