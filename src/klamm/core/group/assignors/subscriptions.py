"""The members that may be assigned and their subscribed topics, for all assignors."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.core.coordinator.java_hash import java_hash
from klamm.core.group.assignors.assignor import Assignment, AssignorFailed, GroupSpec, MemberSpec
from klamm.core.group.assignors.java_hash_order import JavaHashTable, capacity_of_copy
from klamm.protocol.types import TopicId

__all__ = ["NOTHING", "assignable_members", "check_topics", "subscribed_topics"]

NOTHING: Assignment = {}


def assignable_members(spec: GroupSpec) -> dict[str, MemberSpec]:
    """Returns the members that are not held back, in the specification's order."""
    return {member_id: member for member_id, member in spec.members.items() if member.may_be_assigned}


def check_topics(spec: GroupSpec, topic_ids: Iterable[TopicId]) -> None:
    """Raises AssignorFailed for a topic that does not exist."""
    for topic_id in topic_ids:
        if topic_id not in spec.topics:
            raise AssignorFailed(
                f"Members are subscribed to topic {topic_id.hex()} which doesn't exist in the topic metadata."
            )


def subscribed_topics(spec: GroupSpec, member: MemberSpec) -> list[TopicId]:
    """Returns the member's topics in the iteration order of Kafka's set of their names.

    Records list the names in sorted order, so they are added to the set in that order. Raises AssignorFailed for a
    topic that does not exist.
    """
    check_topics(spec, member.topic_ids)
    ids = {spec.topics[topic_id].name: topic_id for topic_id in member.topic_ids}
    if len(ids) < 2:
        return list(ids.values())
    table = JavaHashTable(java_hash, capacity_of_copy(len(ids))).put_all(sorted(ids))
    return [ids[name] for name in table]
