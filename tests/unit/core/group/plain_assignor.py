"""A predictable assignor for tests: members keep partitions where possible, and get the others in order."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.core.group.assignors.assignor import Assignment, Assignor, AssignorFailed, GroupSpec
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["PLAIN_ASSIGNORS", "PlainAssignor"]


class PlainAssignor:
    """A balanced and sticky assignor, in the order of member ids, topics and partitions; it fails if `fails` is set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fails = False
        self.specs: list[GroupSpec] = []

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        if self.fails:
            raise AssignorFailed("told to")
        self.specs.append(spec)
        assigned: dict[str, dict[TopicId, set[PartitionIndex]]] = {member_id: {} for member_id in spec.members}
        for topic_id, topic in sorted(spec.topics.items(), key=lambda item: item[1].name):
            subscribers = sorted(each for each, member in spec.members.items() if topic_id in member.topic_ids)
            if not subscribers:
                continue
            most = -(-topic.partition_count // len(subscribers))
            taken: set[PartitionIndex] = set()
            for member_id in subscribers:
                kept = sorted(spec.members[member_id].target.get(topic_id, frozenset()))
                kept = [each for each in kept if each < topic.partition_count and each not in taken][:most]
                if kept:
                    assigned[member_id][topic_id] = set(kept)
                    taken.update(kept)
            for index in range(topic.partition_count):
                partition = PartitionIndex(index)
                if partition not in taken:
                    poorest = min(subscribers, key=lambda each: len(assigned[each].get(topic_id, ())))
                    assigned[poorest].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in assigned.items()
        }


PLAIN_ASSIGNORS: Mapping[str, Assignor] = {name: PlainAssignor(name) for name in ("uniform", "range")}
