"""`uniform` for groups whose members all read the same topics: the members' partition counts differ by at most one.

A member keeps its partitions up to its quota, in the order of Java's hash tables. The remaining partitions go to the
members with room, in the order of the members. If the partitions don't divide evenly, the quotas differ by one, and the
larger quotas go to members that already have that many partitions. After Apache Kafka 4.3's
`UniformHomogeneousAssignmentBuilder`; it ignores racks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from klamm.core.group.assignors.assignment_copy import (
    AssignmentCopy,
    partitions_in_java_order,
    topics_in_java_order,
)
from klamm.core.group.assignors.assignor import Assignment, AssignorFailed, GroupSpec, MemberSpec
from klamm.core.group.assignors.java_hash_order import DEFAULT_CAPACITY, capacity_of_copy, member_table, topic_table
from klamm.core.group.assignors.subscriptions import subscribed_topics
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["assign_homogeneous"]


def assign_homogeneous(spec: GroupSpec, members: Mapping[str, MemberSpec]) -> dict[str, Assignment]:
    """Returns the target of each of `members`, which must not be empty; returns {} if there are no topics.

    Raises AssignorFailed.
    """
    member_ids = list(member_table(members))
    names = subscribed_topics(spec, members[member_ids[0]])
    topics = list(topic_table(names, capacity_of_copy(len(names))))
    if not topics:
        return {}
    is_read = frozenset(topics)
    free = _free_partitions(spec, members, topics)
    minimum, larger_quotas = divmod(sum(spec.topics[topic_id].partition_count for topic_id in topics), len(member_ids))

    result: dict[str, Assignment] = {}
    copies: dict[str, AssignmentCopy] = {}
    room: dict[str, int] = {}
    for index, member_id in enumerate(member_ids):
        target = result[member_id] = members[member_id].target
        gone = [topic_id for topic_id in target if topic_id not in is_read]
        size = sum(map(len, target.values())) - sum(len(target[topic_id]) for topic_id in gone)
        has_larger = larger_quotas > 0
        quota = minimum + has_larger
        if gone or size > quota:
            copies[member_id] = copy = AssignmentCopy(target)
            for topic_id in gone:
                copy.remove_topic(topic_id)
            for topic_id, partition in islice(_in_java_order(target, is_read), quota, None):
                copy.remove(topic_id, partition)
                free.append((topic_id, partition))
        if size < quota and has_larger and len(member_ids) - index > larger_quotas:
            # The member does not need the larger quota to keep its partitions, and enough other members may get it.
            has_larger = False
            quota -= 1
        if size < quota:
            room[member_id] = quota - size
        larger_quotas -= has_larger

    left = iter(free)
    for member_id, count in room.items():
        copy = copies.get(member_id) or AssignmentCopy(members[member_id].target)
        copies[member_id] = copy
        for topic_id, partition in islice(left, count):
            copy.add(topic_id, partition, DEFAULT_CAPACITY)
    if next(left, None) is not None:
        raise AssignorFailed("Partitions were left unassigned")
    result.update((member_id, copy.freeze()) for member_id, copy in copies.items())
    return result


def _free_partitions(
    spec: GroupSpec, members: Mapping[str, MemberSpec], topics: Sequence[TopicId]
) -> list[tuple[TopicId, PartitionIndex]]:
    """Returns the partitions that are in no member's target, topic by topic."""
    taken: dict[TopicId, set[PartitionIndex]] = {topic_id: set() for topic_id in topics}
    for member in members.values():
        for topic_id, partitions in member.target.items():
            if topic_id in taken:
                taken[topic_id] |= partitions
    return [
        (topic_id, PartitionIndex(partition))
        for topic_id in topics
        for partition in range(spec.topics[topic_id].partition_count)
        if partition not in taken[topic_id]
    ]


def _in_java_order(target: Assignment, is_read: frozenset[TopicId]) -> Iterator[tuple[TopicId, PartitionIndex]]:
    for topic_id in topics_in_java_order(target):
        if topic_id in is_read:
            for partition in partitions_in_java_order(target[topic_id]):
                yield topic_id, partition
