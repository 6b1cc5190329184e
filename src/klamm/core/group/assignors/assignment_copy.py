"""A copy of a member's present assignment, for changes, in the iteration order of Java's hash tables.

Kafka's `uniform` copies a member's assignment before it changes it. The copy's hash tables decide the order in which
the target assignment's record lists topics and partitions. After Apache Kafka's `AssignorHelpers.deepCopyAssignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from klamm.core.group.assignors.assignor import Assignment
from klamm.core.group.assignors.java_hash_order import (
    JavaHashTable,
    capacity_for,
    capacity_of_copy,
    hash_set_of_partitions,
    partition_hash,
    topic_hash,
    topic_table,
)
from klamm.core.group.assignors.partition_order import in_order, ordered
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["AssignmentCopy", "partitions_in_java_order", "topics_in_java_order"]


def topics_in_java_order(assignment: Assignment) -> Iterable[TopicId]:
    """Returns a target assignment's topics in the order of Java's map of its record (`Collectors.toMap`)."""
    return assignment if len(assignment) < 2 else topic_table(assignment)


def partitions_in_java_order(partitions: frozenset[PartitionIndex]) -> Sequence[PartitionIndex]:
    """Returns a topic's partitions in the order of Java's set of its record (`new HashSet<>(list)`)."""
    if max(partitions, default=0) < capacity_of_copy(len(partitions)):
        return sorted(partitions)  # Each partition has its own bucket.
    return list(hash_set_of_partitions(in_order(partitions)))


class AssignmentCopy:
    """A member's new assignment while it is made; `freeze` returns it in Java's order."""

    __slots__ = ("_partitions", "_topics")

    def __init__(self, assignment: Assignment) -> None:
        self._topics = JavaHashTable(topic_hash, capacity_for(len(assignment)))
        self._partitions: dict[TopicId, JavaHashTable[PartitionIndex]] = {}
        for topic_id in topics_in_java_order(assignment):
            self._topics.put(topic_id)
            partitions = partitions_in_java_order(assignment[topic_id])
            self._partitions[topic_id] = hash_set_of_partitions(partitions)

    def add(self, topic_id: TopicId, partition: PartitionIndex, capacity: int) -> None:
        """Adds a partition; `capacity` is the capacity of the partition set if the topic is new."""
        self._topics.compute_if_absent(topic_id)
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = self._partitions[topic_id] = JavaHashTable(partition_hash, capacity)
        partitions.put(partition)

    def remove(self, topic_id: TopicId, partition: PartitionIndex) -> None:
        """Removes a partition, and its topic if no partition is left."""
        partitions = self._partitions[topic_id]
        partitions.remove(partition)
        if not partitions:
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: TopicId) -> None:
        """Removes all partitions of a topic."""
        self._topics.remove(topic_id)
        del self._partitions[topic_id]

    def freeze(self) -> Assignment:
        """Returns the assignment as it is now."""
        return {topic_id: ordered(list(self._partitions[topic_id])) for topic_id in self._topics}
