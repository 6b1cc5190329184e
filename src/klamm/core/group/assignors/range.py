"""The assignor `range`: each member gets a contiguous range of each topic's partitions.

The assignments are the same as those of Apache Kafka 4.3's `RangeAssignor`. Members are ordered by instance id; members
without one follow, by member id. If a topic's partitions don't divide evenly, the first members get one partition more.
Topics with the same number of partitions and the same readers are assigned in the same way, so that they can be joined.
Previous assignments and racks have no influence.
"""

from __future__ import annotations

from klamm.core.group.assignors.assignor import Assignment, GroupSpec, MemberSpec
from klamm.core.group.assignors.java_hash_order import capacity_for, topic_table
from klamm.core.group.assignors.subscriptions import NOTHING, assignable_members, subscribed_topics
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["RangeAssignor"]


class RangeAssignor:
    """The assignor `range`; see the module's docstring."""

    name = "range"

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Returns each member's target. Raises AssignorFailed for a topic that does not exist."""
        members = assignable_members(spec)
        topics_of: dict[str, list[TopicId]] = {}
        subscribers: dict[TopicId, int] = {}
        topics: list[TopicId] | None = None
        for member_id in sorted(members, key=lambda member_id: _rank(member_id, members[member_id])):
            if topics is None or not spec.is_homogeneous:
                topics = subscribed_topics(spec, members[member_id])
            topics_of[member_id] = topics
            for topic_id in topics:
                subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
        given = dict.fromkeys(subscribers, 0)
        result = dict.fromkeys(spec.members, NOTHING)
        for member_id, wanted in topics_of.items():
            ranges: dict[TopicId, frozenset[PartitionIndex]] = {}
            for topic_id in wanted:
                rank = given[topic_id]
                given[topic_id] += 1
                share = _share(spec.topics[topic_id].partition_count, subscribers[topic_id], rank)
                if share:
                    ranges[topic_id] = frozenset(map(PartitionIndex, share))
            result[member_id] = {
                topic_id: ranges[topic_id] for topic_id in topic_table(ranges, capacity_for(len(wanted) * 4 // 3 + 1))
            }
        return result


def _rank(member_id: str, member: MemberSpec) -> tuple[bool, bytes]:
    """Returns the sort key: static members come first. Java compares strings by their UTF-16 units."""
    name = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _share(partition_count: int, member_count: int, rank: int) -> range:
    """Returns the partitions of the member with that rank, counted from 0."""
    quota, extra = divmod(partition_count, member_count)
    start = rank * quota + min(rank, extra)
    return range(start, start + quota + (rank < extra))
