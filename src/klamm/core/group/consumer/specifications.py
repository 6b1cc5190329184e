"""What an assignor is told of a group (KIP-848).

After Apache Kafka's `TargetAssignmentBuilder`, which tells as much, but nobody who had a partition before.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from klamm.core.group.assignors.contract import GroupSpec, MemberSpec, PreviousOwner, TopicSpec
from klamm.core.group.assignors.java_hash_order import timeline_order
from klamm.core.group.assignors.load_settings import LoadSettings
from klamm.core.group.consumer.group import ConsumerGroup
from klamm.core.group.consumer.groups import ConsumerGroups
from klamm.core.group.consumer.member import NO_TARGET, ConsumerGroupMember, Target
from klamm.core.group.consumer.partition_loads import partition_loads
from klamm.core.group.consumer.subscriptions import Subscriptions, at_present
from klamm.protocol.types import Millis, PartitionIndex, TopicId

__all__ = ["Change", "remember_owners", "size_of", "specification"]


class Change(NamedTuple):
    """A member that becomes another in the same decision, before any of it is replayed."""

    old: ConsumerGroupMember
    new: ConsumerGroupMember
    replaced_id: str | None
    """The member id under which a static member was known until now."""


def specification(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    subscriptions: Subscriptions | None,
    change: Change | None,
    now: Millis,
    *,
    is_by_load: bool = False,
) -> GroupSpec:
    """The group as it will be after the change, with what it was to have until now.

    `subscriptions` is what is read after the change, None for what is read now. What partitions carry is told only
    where it counts.
    """
    members = {member_id: group.members[member_id] for member_id in timeline_order(group.members)}
    if change is not None:
        if change.replaced_id is not None:
            members.pop(change.replaced_id, None)
        members[change.new.member_id] = change.new
    held_back = groups.lives.held_back(group.group_id, members.values(), now)
    topics: dict[TopicId, TopicSpec] = {}
    # Most members of a group read the same: what that comes to is worked out once.
    ids_of: dict[tuple[frozenset[str], str], frozenset[TopicId]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in members.items():
        what = (member.subscribed_topic_names, member.subscribed_topic_regex)
        topic_ids = ids_of.get(what)
        if topic_ids is None:
            topic_ids = ids_of[what] = _existing(groups, groups.subscribed_names(group, member), topics)
        target_id = member_id
        if change is not None and member is change.new and change.replaced_id is not None:
            target_id = change.replaced_id
        specs[member_id] = MemberSpec(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            topic_ids=topic_ids,
            target=group.target.get(target_id, NO_TARGET),
            may_be_assigned=member_id not in held_back,
        )
    settings = groups.settings_of(group.group_id)
    # An assignor by load also wants to know of those that may not come back any more: what has moved, rests.
    rest_ms = LoadSettings.from_mapping(settings.load).min_dwell_ms if is_by_load else 0
    return GroupSpec(
        members=specs,
        topics=topics,
        is_homogeneous=(subscriptions or at_present(group)).is_homogeneous,
        loads=partition_loads(groups.store, groups.traffic, group.group_id, topics) if is_by_load else {},
        previous_owners=_previous_owners(groups, group.group_id, max(settings.previous_owner_ms, rest_ms), now),
        previous_owner_ms=settings.previous_owner_ms,
        settings=settings.load,
        now=now,
    )


def _existing(groups: ConsumerGroups, names: Set[str], topics: dict[TopicId, TopicSpec]) -> frozenset[TopicId]:
    found = []
    # In one order, whatever the hash seed of the process: a simulation is replayed to the letter.
    for name in sorted(names):
        facts = groups.topics.by_name(name)
        if facts is not None:
            found.append(facts.topic_id)
            if facts.topic_id not in topics:
                topics[facts.topic_id] = TopicSpec(facts.name, facts.partition_count, facts.racks)
    return frozenset(found)


def size_of(spec: GroupSpec) -> int:
    """Subscriptions of members to topics, plus partitions: what the work of an assignor grows with."""
    subscriptions = sum(len(member.topic_ids) for member in spec.members.values())
    return subscriptions + sum(topic.partition_count for topic in spec.topics.values())


def remember_owners(groups: ConsumerGroups, group: ConsumerGroup, target: Mapping[str, Target], now: Millis) -> None:
    """Keep in mind who was to have a partition until now and is not any more, in case it comes back soon."""
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
                left[topic_id, partition] = PreviousOwner(lost, now)


def _previous_owners(
    groups: ConsumerGroups, group_id: str, for_ms: float, now: Millis
) -> Mapping[tuple[TopicId, PartitionIndex], PreviousOwner]:
    left = groups.previous_owners.get(group_id)
    if not left:
        return {}
    recent = {partition: owner for partition, owner in left.items() if now - owner.until < for_ms}
    if recent:
        groups.previous_owners[group_id] = recent
    else:
        del groups.previous_owners[group_id]
    return dict(recent)
