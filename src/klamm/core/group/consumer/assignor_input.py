"""The input of an assignor: a description of one group (KIP-848).

After Apache Kafka's `TargetAssignmentBuilder`. klamm also gives the previous owners and the loads of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final, NamedTuple

from klamm.core.coordinator.cluster_topics import TopicFacts
from klamm.core.group.assignors.assignor import GroupSpec, MemberSpec, PartitionLoad, PreviousOwner, TopicSpec
from klamm.core.group.assignors.java_hash_order import timeline_order
from klamm.core.group.assignors.load_settings import LoadSettings
from klamm.core.group.consumer.changed_subscriptions import Subscriptions, at_present
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import ResolvedRegex
from klamm.core.group.consumer.consumer_groups import ConsumerGroups
from klamm.core.group.consumer.member import NO_TARGET, ConsumerGroupMember, Target
from klamm.core.group.group_store import GroupStore
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.types import Millis, PartitionIndex, TopicId

__all__ = ["Change", "Description", "describe", "remember_owners"]

_REMEMBERED_MS: Final = 300_000
"""Minimum time for which a previous owner is remembered, even if no assignor prefers it: the published partition moves
(`partition_moves.py`) need it."""


class Change(NamedTuple):
    """A member before and after the decision that changes or adds it; no record of the change is replayed yet."""

    old: ConsumerGroupMember
    new: ConsumerGroupMember
    replaced_id: str | None
    """The previous member id of a static member whose place `new` takes."""


class Description(NamedTuple):
    """A snapshot of everything that `specification` needs; it does not change afterwards.

    Taking the snapshot is cheap, even for a group of thousands of members. `specification` takes longer and may be
    called on another thread.
    """

    members: Mapping[str, ConsumerGroupMember]
    """The members before the change."""
    change: Change | None
    """The member that changes or joins, if any."""
    target: Mapping[str, Target]
    """The present target of each member."""
    regexes: Mapping[str, ResolvedRegex]
    topics: Mapping[str, TopicFacts]
    """The existing topics that members read, by name."""
    size: int
    """Subscriptions of members to topics, plus partitions: the work of an assignor grows with this sum."""
    held_back: Set[str]
    """The members that get no partitions."""
    is_homogeneous: bool
    loads: Mapping[tuple[TopicId, PartitionIndex], PartitionLoad]
    previous_owners: Mapping[tuple[TopicId, PartitionIndex], PreviousOwner]
    previous_owner_ms: int
    settings: Mapping[str, float]
    now: Millis

    def specification(self) -> GroupSpec:
        """Returns the group as it will be after the change, with its present target."""
        change = self.change
        members = {member_id: self.members[member_id] for member_id in timeline_order(self.members)}
        if change is not None:
            if change.replaced_id is not None:
                members.pop(change.replaced_id, None)
            members[change.new.member_id] = change.new
        topics: dict[TopicId, TopicSpec] = {}
        # Most members of a group read the same topics: each distinct subscription is resolved once.
        ids_of: dict[tuple[frozenset[str], str], frozenset[TopicId]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id, member in members.items():
            what = (member.subscribed_topic_names, member.subscribed_topic_regex)
            topic_ids = ids_of.get(what)
            if topic_ids is None:
                topic_ids = ids_of[what] = self._existing(*what, topics)
            target_id = member_id
            if change is not None and member is change.new and change.replaced_id is not None:
                target_id = change.replaced_id
            specs[member_id] = MemberSpec(
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                topic_ids=topic_ids,
                target=self.target.get(target_id, NO_TARGET),
                may_be_assigned=member_id not in self.held_back,
            )
        return GroupSpec(
            members=specs,
            topics=topics,
            # Kafka uses the members before the change, and would give a new member topics that it does not read.
            is_homogeneous=self.is_homogeneous and len(set(ids_of.values())) <= 1,
            loads=self.loads,
            previous_owners=self.previous_owners,
            previous_owner_ms=self.previous_owner_ms,
            settings=self.settings,
            now=self.now,
        )

    def _existing(self, names: Set[str], regex: str, topics: dict[TopicId, TopicSpec]) -> frozenset[TopicId]:
        resolved = self.regexes.get(regex)
        found = []
        # Sorted, so that the order does not depend on the hash seed and a simulation replays exactly.
        for name in sorted(names if resolved is None else names | resolved.topics):
            facts = self.topics.get(name)
            if facts is not None:
                found.append(facts.topic_id)
                if facts.topic_id not in topics:
                    topics[facts.topic_id] = TopicSpec(facts.name, facts.partition_count, facts.racks)
        return frozenset(found)


def describe(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    subscriptions: Subscriptions | None,
    change: Change | None,
    now: Millis,
    *,
    is_by_load: bool = False,
) -> Description:
    """Returns a description of the group and of the change to it.

    `subscriptions` are the ones after the change; None means the present ones. Loads are given only if `is_by_load`.
    """
    group_id = group.group_id
    read = subscriptions or at_present(group)
    names = read.topics if change is None else read.topics | groups.subscribed_names(group, change.new)
    topics = {name: facts for name in names if (facts := groups.topics.by_name(name)) is not None}
    settings = groups.group_config_of(group_id)
    # The load assignor needs previous owners for longer: it does not move a partition again within `min_dwell_ms`.
    rest_ms = LoadSettings.from_mapping(settings.load).min_dwell_ms if is_by_load else 0
    specs = {facts.topic_id: TopicSpec(name, facts.partition_count) for name, facts in topics.items()}
    return Description(
        members=dict(group.members),
        change=change,
        target=dict(group.target),
        regexes=dict(group.regexes),
        topics=topics,
        size=_size(group, read, topics),
        held_back=groups.lifetimes.held_back(group_id, _after(group.members, change), now).keys(),
        is_homogeneous=read.is_homogeneous,
        loads=_partition_loads(groups.group_store, groups.traffic, group_id, specs) if is_by_load else {},
        previous_owners=_previous_owners(groups, group_id, max(settings.previous_owner_ms, rest_ms), now),
        previous_owner_ms=settings.previous_owner_ms,
        settings=settings.load,
        now=now,
    )


def _after(members: Mapping[str, ConsumerGroupMember], change: Change | None) -> Iterator[ConsumerGroupMember]:
    """Yields the members after the change, in no order."""
    if change is None:
        yield from members.values()
        return
    left = (change.replaced_id, change.new.member_id)
    yield from (member for member_id, member in members.items() if member_id not in left)
    yield change.new


def _size(group: ConsumerGroup, read: Subscriptions, topics: Mapping[str, TopicFacts]) -> int:
    subscriptions = sum(count for name, count in read.name_counts.items() if name in topics)
    subscriptions += sum(count * len(group.regex_topics(regex)) for regex, count in read.regex_counts.items())
    return subscriptions + sum(facts.partition_count for facts in topics.values())


def remember_owners(groups: ConsumerGroups, group: ConsumerGroup, target: Mapping[str, Target], now: Millis) -> None:
    """Remembers each member that loses a partition by the new target as its previous owner: it may come back soon."""
    names: dict[str, str] = {}
    for member_id, before in group.target.items():
        after = target.get(member_id, NO_TARGET)
        if before == after:
            continue
        member = group.members.get(member_id)
        if member is None:
            continue
        lost = names.setdefault(member_id, member.name)
        left = groups.previous_owners.setdefault(group.group_id, {})
        for topic_id, partitions in before.items():
            for partition in partitions - after.get(topic_id, frozenset()):
                left[topic_id, partition] = PreviousOwner(lost, now, member_id)


def _previous_owners(
    groups: ConsumerGroups, group_id: str, for_ms: float, now: Millis
) -> Mapping[tuple[TopicId, PartitionIndex], PreviousOwner]:
    left = groups.previous_owners.get(group_id)
    if not left:
        return {}
    kept = _later_than(left, now - max(for_ms, _REMEMBERED_MS))
    if kept:
        groups.previous_owners[group_id] = kept
    else:
        del groups.previous_owners[group_id]
    return dict(kept) if for_ms >= _REMEMBERED_MS else _later_than(kept, now - for_ms)


def _later_than(
    left: Mapping[tuple[TopicId, PartitionIndex], PreviousOwner], moment: float
) -> dict[tuple[TopicId, PartitionIndex], PreviousOwner]:
    return {partition: owner for partition, owner in left.items() if owner.until > moment}


def _partition_loads(
    store: GroupStore, traffic: Traffic, group_id: str, topics: Mapping[TopicId, TopicSpec]
) -> dict[tuple[TopicId, PartitionIndex], PartitionLoad]:
    """Returns the load of each partition of these topics that is known: its arrival rate and its lag."""
    loads = {}
    for topic_id, topic in topics.items():
        committed = store.offsets_of(group_id).get(topic.name)
        for index, partition_traffic in enumerate(traffic.get(topic.name, ())):
            if partition_traffic is not None and index < topic.partition_count:
                partition = PartitionIndex(index)
                offset = None if committed is None else committed.get(partition)
                lag = partition_traffic.lag_of(None if offset is None else offset.offset)
                loads[topic_id, partition] = PartitionLoad(partition_traffic.arrival_rate, lag)
    return loads
