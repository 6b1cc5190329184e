"""Gives members that return soon their previous partitions.

An application that keeps state per partition (a cache, a state store) profits from a partition that it owned recently.
Handing back never changes how many partitions a member has, and never moves more partitions than the target moves
anyway: a partition is only exchanged for one that the returning member would get instead.
"""

from __future__ import annotations

from typing import TypeAlias

from klamm.core.group.assignors.assignor import Assignment, GroupSpec
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["hand_back", "owners", "returning_owners"]

Partition: TypeAlias = tuple[TopicId, PartitionIndex]


def owners(assignments: dict[str, Assignment]) -> dict[Partition, str]:
    """Returns the owner of each partition."""
    return {
        (topic_id, partition): member_id
        for member_id, assignment in assignments.items()
        for topic_id, partitions in assignment.items()
        for partition in partitions
    }


def returning_owners(spec: GroupSpec) -> dict[Partition, str]:
    """Returns the ids of previous owners that returned in time, may be assigned and read the topic, by partition."""
    ids = {
        member_id if member.instance_id is None else member.instance_id: member_id
        for member_id, member in spec.members.items()
        if member.may_be_assigned
    }
    result: dict[Partition, str] = {}
    for partition in sorted(spec.previous_owners):
        owner = spec.previous_owners[partition]
        if spec.now - owner.until >= spec.previous_owner_ms:
            continue
        member_id = ids.get(owner.member_name)
        if member_id is not None and partition[0] in spec.members[member_id].topic_ids:
            result[partition] = member_id
    return result


def hand_back(spec: GroupSpec, result: dict[str, Assignment]) -> dict[str, Assignment]:
    """Returns `result` with partitions exchanged, so that returning members get their previous partitions."""
    returning = returning_owners(spec)
    before = owners({member_id: member.target for member_id, member in spec.members.items()})
    after = owners(result)
    gained: dict[str, list[Partition]] = {}
    for partition in sorted(after):
        member_id = after[partition]
        if before.get(partition) != member_id and returning.get(partition) != member_id:
            gained.setdefault(member_id, []).append(partition)
    changed: dict[str, dict[TopicId, list[PartitionIndex]]] = {}
    for partition, member_id in returning.items():
        holder = after.get(partition)
        if holder is None or holder == member_id:
            continue
        moves_anyway = before.get(partition) != holder
        wanted = spec.members[holder].topic_ids
        offers = [other for other in gained.get(member_id, ()) if other[0] in wanted]
        exchange = next((other for other in offers if before.get(other) == holder), None)
        if exchange is None and moves_anyway and offers:
            exchange = offers[0]
        if exchange is None:
            continue
        gained[member_id].remove(exchange)
        if moves_anyway:
            gained[holder].remove(partition)
        if before.get(exchange) != holder and returning.get(exchange) != holder:
            gained.setdefault(holder, []).append(exchange)
        after[partition], after[exchange] = member_id, holder
        changed[member_id], changed[holder] = {}, {}
    if not changed:
        return result
    for topic_id, index in sorted(after):
        topics = changed.get(after[topic_id, index])
        if topics is not None:
            topics.setdefault(topic_id, []).append(index)
    return result | {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
        for member_id, topics in changed.items()
    }
