"""A consumer group as the log has it, with the counts, owners and state derived from it (KIP-848).

A group changes only when records are replayed (`replay.py`). The counts are maintained, not recomputed, because a
heartbeat must not iterate over all members. After Apache Kafka's `ModernGroup` and `ConsumerGroup`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import chain
from types import MappingProxyType
from typing import Final

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from klamm.core.group.consumer.consumer_group_records import (
    ResolvedRegex,
    current_assignment_tombstone,
    epoch_tombstone,
    legacy_metadata_tombstone,
    member_tombstone,
    regex_tombstone,
    target_epoch_tombstone,
    target_tombstone,
)
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.consumer.member import NO_TARGET, Assigned, ConsumerGroupMember, Target
from klamm.core.group.consumer.topic_index import TopicIndex
from klamm.core.group.events import GroupType
from klamm.protocol.types import Millis, PartitionIndex, TopicId

__all__ = ["ConsumerGroup"]

_INITIAL_EPOCH: Final = 1
"""Epoch of a new group and of its target; the first member raises it to 2."""
_NO_TIMESTAMP: Final = Millis(0)
_NO_SUCCESSORS: Final[Mapping[str, str]] = MappingProxyType({})


class ConsumerGroup:
    """One group. Two groups that replayed the same records are equal."""

    __slots__ = (
        "assigned_at_ms",
        "classic_protocol_counts",
        "classic_size",
        "epoch",
        "group_id",
        "has_legacy_metadata",
        "index",
        "members",
        "metadata_hash",
        "name_counts",
        "owners",
        "regex_counts",
        "regex_topic_counts",
        "regexes",
        "server_assignor_counts",
        "static_members",
        "target",
        "target_epoch",
        "unreconciled",
    )

    def __init__(self, group_id: str, index: TopicIndex) -> None:
        self.group_id = group_id
        self.index = index
        self.epoch = _INITIAL_EPOCH
        """Rises whenever a new target is needed."""
        self.metadata_hash = 0
        """Hash of the subscribed topics when the epoch last rose."""
        self.target_epoch = _INITIAL_EPOCH
        """The group epoch that the target is for; -1 after a tombstone."""
        self.assigned_at_ms = _NO_TIMESTAMP
        """When the target was made; 0 if unknown."""
        self.members: dict[str, ConsumerGroupMember] = {}
        self.target: dict[str, Target] = {}
        """Each member's part of the target assignment."""
        self.regexes: dict[str, ResolvedRegex] = {}
        """The resolved regular expressions."""
        self.has_legacy_metadata = False
        """Whether the log has a record of the group's topics from a broker before 4.1."""

        # Derived from the fields above.
        self.static_members: dict[str, str] = {}
        """Member ids by group instance id."""
        self.owners: dict[TopicId, dict[PartitionIndex, str]] = {}
        """The member that owns a partition or has not revoked it yet. Every topic here has at least one owner."""
        self.unreconciled = 0
        """How many members have not reached the target yet."""
        self.name_counts: dict[str, int] = {}
        """How many members subscribed to a topic by its name."""
        self.regex_counts: dict[str, int] = {}
        """How many members subscribed by a regular expression, resolved or not."""
        self.regex_topic_counts: dict[str, int] = {}
        """How many resolved regular expressions match a topic."""
        self.server_assignor_counts: dict[str, int] = {}
        """How many members prefer an assignor."""
        self.classic_size = 0
        """How many members use the classic protocol."""
        self.classic_protocol_counts: dict[str, int] = {}
        """How many members of the classic protocol support a protocol, by its name."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerGroup):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "index")

    __hash__ = None  # type: ignore[assignment]

    # Reading

    @property
    def protocol_type(self) -> str:
        """Always the protocol type of consumers."""
        return CONSUMER_PROTOCOL_TYPE

    @property
    def group_type(self) -> GroupType:
        """Always the consumer type."""
        return GroupType.CONSUMER

    @property
    def state(self) -> ConsumerGroupState:
        """The state, derived from the epochs and the members."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        return ConsumerGroupState.RECONCILING if self.unreconciled else ConsumerGroupState.STABLE

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether a member reads the topic, by name or by regular expression."""
        return topic in self.name_counts or topic in self.regex_topic_counts

    def subscribed_topics(self) -> Set[str]:
        """Returns the names of all topics that a member reads; they need not exist."""
        return self.name_counts.keys() | self.regex_topic_counts.keys()

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Returns the member with this group instance id, or None."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Target:
        """Returns the member's part of the target; finds a static member by instance id, whatever its member id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.target.get(member_id, NO_TARGET)

    def owner(self, topic_id: TopicId, partition: PartitionIndex) -> str | None:
        """Returns the id of the member that owns the partition or has not revoked it yet, or None."""
        partitions = self.owners.get(topic_id)
        return None if partitions is None else partitions.get(partition)

    def regex_topics(self, regex: str) -> frozenset[str]:
        """Returns the topics that the regular expression matches; empty until it is resolved."""
        resolved = self.regexes.get(regex)
        return frozenset() if resolved is None else resolved.topics

    # Common to all kinds of groups, for offsets and lists

    @property
    def may_expire(self) -> bool:
        """Always True: offsets of topics that no member reads may expire."""
        return True

    @property
    def expires_from_ms(self) -> Millis | None:
        """Always None: the retention of an offset runs from its commit, whatever the state of the group."""
        return None

    @property
    def allows_offset_delete(self) -> bool:
        """Always True: single offsets of topics that no member reads may be deleted."""
        return True

    def tombstones(self, successors: Mapping[str, str] = _NO_SUCCESSORS) -> Iterator[CoordinatorRecord]:
        """Yields the records that remove the group from the log.

        `successors` maps replaced member ids to the member ids just written in their place.
        """
        group_id = self.group_id
        member_ids = [successors.get(member_id, member_id) for member_id in self.members]
        yield from (current_assignment_tombstone(group_id, member_id) for member_id in member_ids)
        yield from (target_tombstone(group_id, member_id) for member_id in member_ids)
        yield target_epoch_tombstone(group_id)
        yield from (member_tombstone(group_id, member_id) for member_id in member_ids)
        yield from (regex_tombstone(group_id, regex) for regex in self.regexes)
        yield legacy_metadata_tombstone(group_id)
        yield epoch_tombstone(group_id)

    # Replay

    def put_member(self, member: ConsumerGroupMember) -> None:
        """Adds a member, or replaces it by its new version."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count_member(old, member)
        has_the_same = (
            old is not None and member.assigned is old.assigned and member.pending_revocation is old.pending_revocation
        )
        # Unchanged partitions keep their owners, since another member may own some of them by now: a log that is
        # compacted while it is loaded may lack the records with which this member left.
        if not has_the_same:
            if old is not None:
                self._disown(old)
            self._own(member, member.assigned)
            self._own(member, member.pending_revocation)
        if old is not None and old.instance_id != member.instance_id:
            self._forget_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def drop_member(self, member_id: str) -> None:
        """Removes a member; does nothing if there is none."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._count_member(old, None)
        self._disown(old)
        self._forget_instance(old)

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Sets the group epoch and the hash of the topics."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def set_target_epoch(self, epoch: int, assigned_at_ms: Millis) -> None:
        """Sets the group epoch that the target is for, and when the target was made."""
        self.assigned_at_ms = assigned_at_ms
        if epoch != self.target_epoch:
            self.target_epoch = epoch
            self.unreconciled = sum(not member.is_reconciled_to(epoch) for member in self.members.values())

    def set_target(self, member_id: str, target: Target | None) -> None:
        """Sets the member's part of the target; None removes it."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def set_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Sets the topics of a regular expression; None removes it."""
        old = self.regexes.pop(regex, None)
        if resolved is not None:
            self.regexes[regex] = resolved
            for topic in resolved.topics:
                self._count_topic(self.regex_topic_counts, topic, 1)
        if old is not None:
            for topic in old.topics:
                self._count_topic(self.regex_topic_counts, topic, -1)

    def forget_subscriptions(self) -> None:
        """Removes the group, which is gone, from the topic index."""
        for topic in self.subscribed_topics():
            self.index.remove(topic, self.group_id)
        self.index.regex_groups.discard(self.group_id)

    def _forget_instance(self, member: ConsumerGroupMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _count_member(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        for member, change in ((new, 1), (old, -1)):
            if member is None:
                continue
            if not member.is_reconciled_to(self.target_epoch):
                self.unreconciled += change
            if member.server_assignor is not None:
                _count(self.server_assignor_counts, member.server_assignor, change)
            if member.classic is not None:
                self.classic_size += change
                for name, _ in member.classic.protocols:
                    _count(self.classic_protocol_counts, name, change)
        self._count_names(old, new)
        self._count_regex(
            "" if old is None else old.subscribed_topic_regex, "" if new is None else new.subscribed_topic_regex
        )

    def _count_names(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        old_names = frozenset() if old is None else old.subscribed_topic_names
        new_names = frozenset() if new is None else new.subscribed_topic_names
        if old_names is not new_names:
            for topic in new_names:
                self._count_topic(self.name_counts, topic, 1)
            for topic in old_names:
                self._count_topic(self.name_counts, topic, -1)

    def _count_regex(self, old: str, new: str) -> None:
        if old == new:
            return
        if new:
            _count(self.regex_counts, new, 1)
            self.index.regex_groups.add(self.group_id)
        if old:
            _count(self.regex_counts, old, -1)
            if not self.regex_counts:
                self.index.regex_groups.discard(self.group_id)

    def _count_topic(self, counts: dict[str, int], topic: str, change: int) -> None:
        was_read = self.is_subscribed_to(topic)
        _count(counts, topic, change)
        is_read = self.is_subscribed_to(topic)
        if is_read and not was_read:
            self.index.add(topic, self.group_id)
        elif was_read and not is_read:
            self.index.remove(topic, self.group_id)

    def _own(self, member: ConsumerGroupMember, assigned: Assigned) -> None:
        for topic_id, partitions in assigned.items():
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))

    def _disown(self, member: ConsumerGroupMember) -> None:
        """Frees the partitions of `member`, except those that another member or its own new version has."""
        kept = self.members.get(member.member_id)
        for topic_id, partition in chain(_each(member.assigned), _each(member.pending_revocation)):
            owners = self.owners.get(topic_id)
            if owners is None or owners.get(partition) != member.member_id:
                continue
            if kept is not None and kept.assignment_epoch(topic_id, partition) is not None:
                continue
            del owners[partition]
            if not owners:
                del self.owners[topic_id]


def _each(assigned: Assigned) -> Iterator[tuple[TopicId, PartitionIndex]]:
    for topic_id, partitions in assigned.items():
        for partition in partitions:
            yield topic_id, partition


def _count(counts: dict[str, int], name: str, change: int) -> None:
    count = counts.get(name, 0) + change
    if count:
        counts[name] = count
    else:
        counts.pop(name, None)
