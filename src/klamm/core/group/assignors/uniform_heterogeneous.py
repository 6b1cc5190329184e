"""`uniform` for groups whose members read different topics: gives each topic's partitions to the subscribers with the
fewest, and leaves partitions with their owners if the balance allows it.

First, every member loses the topics that it no longer reads. Then free partitions go to the subscribers with the fewest
partitions. Then partitions move from the subscribers with the most to those with the fewest, topic by topic, until no
topic's subscribers differ by more than one, or for sixteen rounds. Topics with many partitions for few subscribers
come first. After Apache Kafka 4.3's `UniformHeterogeneousAssignmentBuilder`; it ignores racks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from klamm.core.group.assignors.assignment_copy import AssignmentCopy
from klamm.core.group.assignors.assignor import Assignment, GroupSpec, MemberSpec
from klamm.core.group.assignors.java_hash_order import capacity_for, member_table
from klamm.core.group.assignors.subscriptions import check_topics
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["assign_heterogeneous"]

_MAX_ROUNDS: Final = 16
_NO_OWNER: Final = -1


def assign_heterogeneous(spec: GroupSpec, members: Mapping[str, MemberSpec]) -> dict[str, Assignment]:
    """Returns the target of each of `members`, which must not be empty; returns {} if there are no topics.

    Raises AssignorFailed.
    """
    assignment = _Assignment(spec, members)
    if not assignment.subscribers:
        return {}
    assignment.give_free_partitions()
    assignment.balance()
    return assignment.result()


class _Assignment:
    """The assignment while it is made. Members are identified by their index in Java's order."""

    def __init__(self, spec: GroupSpec, members: Mapping[str, MemberSpec]) -> None:
        self.spec = spec
        self.member_ids = list(member_table(members))
        self.targets = [members[member_id].target for member_id in self.member_ids]
        self.copies: dict[int, AssignmentCopy] = {}
        self.sizes = [0] * len(self.member_ids)
        self.subscribers: dict[TopicId, list[int]] = {}
        for index, member_id in enumerate(self.member_ids):
            check_topics(spec, members[member_id].topic_ids)
            for topic_id in members[member_id].topic_ids:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.owners = {topic_id: [_NO_OWNER] * spec.topics[topic_id].partition_count for topic_id in self.subscribers}
        self.topics = sorted(self.subscribers, key=self._topic_rank)
        for index, member_id in enumerate(self.member_ids):
            for topic_id, partitions in self.targets[index].items():
                if topic_id not in members[member_id].topic_ids:
                    self._copy(index).remove_topic(topic_id)
                    continue
                self.sizes[index] += len(partitions)
                owners = self.owners[topic_id]
                for partition in partitions:
                    owners[partition] = index

    def give_free_partitions(self) -> None:
        """Gives each partition without an owner to the subscriber with the fewest partitions."""
        for topic_id in self.topics:
            owners = self.owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner == _NO_OWNER]
            takers = _fewest_first(self._by_size(topic_id), self.sizes)
            for partition, (taker, _) in zip(free, takers, strict=False):
                self._give(topic_id, partition, taker)

    def balance(self) -> None:
        """Balances topic by topic until a whole round changes nothing, for at most `_MAX_ROUNDS` rounds."""
        topics = [topic_id for topic_id in self.topics if len(self.subscribers[topic_id]) >= 2]
        last_changed = None
        for _ in range(_MAX_ROUNDS):
            for topic_id in topics:
                if topic_id == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed is None:
                    last_changed = topic_id

    def result(self) -> dict[str, Assignment]:
        """Returns each member's target."""
        return {
            member_id: self.copies[index].freeze() if index in self.copies else self.targets[index]
            for index, member_id in enumerate(self.member_ids)
        }

    def _balance_topic(self, topic_id: TopicId) -> bool:
        """Balances the topic's subscribers by moving its partitions; returns whether any moved."""
        by_size = self._by_size(topic_id)
        if self.sizes[by_size[-1]] - self.sizes[by_size[0]] <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        takers = _fewest_first(by_size, self.sizes)
        givers = _MostFirst(by_size, self.sizes)
        has_changed = False
        while (giver := givers.next_with_any_of(owned)) is not None:
            partition = owned[giver].pop()
            taker, fewest = next(takers)
            if givers.level - fewest <= 1:
                break
            self._give(topic_id, partition, taker)
            has_changed = True
        return has_changed

    def _give(self, topic_id: TopicId, partition: int, taker: int) -> None:
        index = PartitionIndex(partition)
        owner = self.owners[topic_id][partition]
        if owner != _NO_OWNER:
            self._copy(owner).remove(topic_id, index)
            self.sizes[owner] -= 1
        each = -(-self.spec.topics[topic_id].partition_count // len(self.subscribers[topic_id]))
        self._copy(taker).add(topic_id, index, capacity_for(each * 4 // 3 + 1))
        self.sizes[taker] += 1
        self.owners[topic_id][partition] = taker

    def _copy(self, member: int) -> AssignmentCopy:
        copy = self.copies.get(member)
        if copy is None:
            copy = self.copies[member] = AssignmentCopy(self.targets[member])
        return copy

    def _by_size(self, topic_id: TopicId) -> list[int]:
        """Returns the topic's subscribers, those with the fewest partitions first."""
        return sorted(self.subscribers[topic_id], key=lambda member: (self.sizes[member], member))

    def _topic_rank(self, topic_id: TopicId) -> tuple[float, int, int, int]:
        """Returns the sort key: most partitions per subscriber, fewest subscribers, id (two signed numbers in Java)."""
        subscriber_count = len(self.subscribers[topic_id])
        return (
            -self.spec.topics[topic_id].partition_count / subscriber_count,
            subscriber_count,
            int.from_bytes(topic_id[:8], "big", signed=True),
            int.from_bytes(topic_id[8:], "big", signed=True),
        )


def _fewest_first(by_size: list[int], sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yields the member that gets the next partition, and the smallest number of partitions that a member has.

    It assumes that each yielded member gets one partition.
    """
    steps = [sizes[member] for member in by_size]
    members = list(by_size)
    level = steps[0]
    reached = 0
    while True:
        while reached < len(steps) and steps[reached] <= level:
            reached += 1
        for member in members[:reached]:
            yield member, level
        level += 1


class _MostFirst:
    """Selects the member that gives the next partition: one with the most, assuming that each selected member gave one.

    `level` is how many partitions the last selected member had, or would have had if each had given in its turn.
    """

    def __init__(self, by_size: list[int], sizes: list[int]) -> None:
        self._members = list(by_size)
        self._sizes = sizes
        self._start = self._end = len(by_size)
        self._next = len(by_size) - 1
        self.level = sizes[by_size[-1]] + 1

    def next_with_any_of(self, owned: Mapping[int, list[int]]) -> int | None:
        """Returns the next member with a partition left to give; None if there is none.

        Members without one are skipped permanently.
        """
        while True:
            if self._next < self._start:
                self._widen()
            if self._next < 0:
                return None
            place = self._next
            self._next -= 1
            member = self._members[place]
            if owned.get(member):
                return member
            # The skipped member moves to the end of the range and out of it.
            self._end -= 1
            self._members[place], self._members[self._end] = self._members[self._end], member

    def _widen(self) -> None:
        """Adds the members of the next level to the range, after each member in the range gave one partition."""
        if self._end <= self._start and self._start > 0:
            self.level = self._sizes[self._members[self._start - 1]]
        else:
            self.level -= 1
        while self._start > 0 and self._sizes[self._members[self._start - 1]] == self.level:
            self._start -= 1
        self._next = self._end - 1
