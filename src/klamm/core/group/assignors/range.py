"""The assignor `range`: each member gets a contiguous range of each topic's partitions.

The same assignments as those of Apache Kafka 4.3's `RangeAssignor`. Members are ordered by instance id, then those
without one by member id; of a topic that doesn't divide evenly the first members get one partition more. Topics with as
many partitions, read by the same members, are assigned alike, so that they may be joined. What members had before
counts for nothing, and racks don't either.
"""

from __future__ import annotations

from klamm.core.group.assignors.assignor import Assignment, GroupSpec, MemberSpec
from klamm.core.group.assignors.java_hash_order import capacity_for, topic_table
from klamm.core.group.assignors.subscriptions import NOTHING, assignable_members, subscribed_topics
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["RangeAssignor"]


class RangeAssignor:
    """See the module's docstring."""

    name = "range"

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """The target of every member. Raises AssignorFailed for a topic that does not exist."""
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
    """Static members come first. Java compares strings by their UTF-16 units."""
    name = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _share(partition_count: int, member_count: int, rank: int) -> range:
    """The partitions of the member with that rank, from 0."""
    quota, extra = divmod(partition_count, member_count)
    start = rank * quota + min(rank, extra)
    return range(start, start + quota + (rank < extra))
