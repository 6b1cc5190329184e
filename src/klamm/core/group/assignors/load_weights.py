"""The weight of a partition for the assignor `load`: the records a second that its member has to process.

    weight = topic weight x (arrival rate + lag / drain time) + partition cost

A partition without figures is new, or its leader has not reported them yet. It gets the average of its topic, or the
average of all topics if its topic has no figures. Weights are whole thousandths of a record a second, so that sums
don't depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Final, TypeAlias

from klamm.core.group.assignors.assignor import Assignment, GroupSpec, PartitionLoad
from klamm.core.group.assignors.load_settings import LoadSettings
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["Partition", "load_of", "partition_weights"]

Partition: TypeAlias = tuple[TopicId, PartitionIndex]

_UNITS: Final = 1000


def partition_weights(spec: GroupSpec, settings: LoadSettings) -> dict[Partition, int] | None:
    """Returns the weight of each partition in the specification, at least 1, in order of topic id and index.

    Returns None if there are no figures for any partition.
    """
    demands: dict[TopicId, dict[PartitionIndex, float]] = {}
    for (topic_id, partition), load in spec.loads.items():
        topic = spec.topics.get(topic_id)
        if topic is not None and partition < topic.partition_count:
            demands.setdefault(topic_id, {})[partition] = _demand(load, settings)
    if not demands:
        return None
    averages = {topic_id: _average(known.values()) for topic_id, known in demands.items()}
    overall = _average(demand for topic_id in sorted(demands) for demand in demands[topic_id].values())
    result: dict[Partition, int] = {}
    for topic_id in sorted(spec.topics):
        topic = spec.topics[topic_id]
        known = demands.get(topic_id, {})
        average = averages.get(topic_id, overall)
        factor = settings.topic_weights.get(topic.name, 1.0)
        for partition in map(PartitionIndex, range(topic.partition_count)):
            weight = factor * known.get(partition, average) + settings.partition_cost
            result[topic_id, partition] = max(round(weight * _UNITS), 1)
    return result


def load_of(assignment: Assignment, weights: Mapping[Partition, int]) -> int:
    """Returns the load of an assignment; partitions without a weight no longer exist and count as 0."""
    return sum(
        weights.get((topic_id, partition), 0) for topic_id, partitions in assignment.items() for partition in partitions
    )


def _demand(load: PartitionLoad, settings: LoadSettings) -> float:
    return max(load.arrival_rate, 0.0) + max(load.lag, 0) * 1000 / settings.lag_drain_ms


def _average(values: Iterable[float]) -> float:
    """Returns the average, from an exact sum, because the order of the figures varies."""
    found = list(values)
    return fsum(found) / len(found)
