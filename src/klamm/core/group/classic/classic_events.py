"""The events of a classic group.

Partitions stay in the consumer protocol's bytes until the event is read. Groups of other kinds, such as Kafka
Connect's, have no partitions to show.
"""

from __future__ import annotations

from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.embedded_protocol import NO_PARTITIONS, Assignment, owned_partitions
from klamm.core.group.classic.member import Member
from klamm.core.group.crash_loops import CrashLoops, lasting_name
from klamm.core.group.events import (
    Cause,
    GroupIsStable,
    GroupLoaded,
    GroupType,
    MemberAssigned,
    MemberJoined,
    MemberPaused,
    MemberRemoved,
    NewEpoch,
    PartitionsByTopic,
    RebalanceNeeded,
    TargetChosen,
)
from klamm.protocol.types import Millis

__all__ = [
    "assigned",
    "assignment_of",
    "is_crash_looping",
    "joined",
    "loaded",
    "lost",
    "needed",
    "new_generation",
    "paused",
    "removed",
    "stable",
    "target_chosen",
]


def needed(
    group: ClassicGroup, cause: Cause, member_id: str | None, detail: str, now: Millis, *, crash_loop: bool = False
) -> RebalanceNeeded:
    """Returns the event for a cause of the group's next generation."""
    return RebalanceNeeded(
        group.group_id, GroupType.CLASSIC, group.generation, cause, member_id, detail, now, crash_loop
    )


def joined(group: ClassicGroup, member: Member, now: Millis) -> MemberJoined:
    """Returns the event for a member that has joined."""
    return MemberJoined(
        group.group_id, member.member_id, member.group_instance_id, member.client_id, member.client_host, now
    )


def removed(group: ClassicGroup, member_id: str, cause: Cause, detail: str, now: Millis) -> MemberRemoved:
    """Returns the event for a member that was removed."""
    return MemberRemoved(group.group_id, member_id, cause, detail, now)


def lost(
    group: ClassicGroup, member: Member, cause: Cause, detail: str, now: Millis, *, died_at: Millis
) -> tuple[MemberRemoved, RebalanceNeeded]:
    """Counts the death of a member and returns its events; the cause says whether the member is in a crash loop."""
    name = lasting_name(member.group_instance_id, member.client_id, member.client_host)
    if group.crash_loops is None:
        group.crash_loops = CrashLoops()
    group.crash_loops.note_death(name, now, member.has_committed, joined_at=member.joined_at, died_at=died_at)
    deaths = group.crash_loops.deaths(name, now)
    is_looping = group.crash_loops.is_looping(name, now)
    if is_looping:
        detail = f"{detail}; it is in a crash loop: {deaths} deaths without a commit"
    return (
        removed(group, member.member_id, cause, detail, now),
        needed(group, cause, member.member_id, f"member {member.member_id}: {detail}", now, crash_loop=is_looping),
    )


def is_crash_looping(group: ClassicGroup, member: Member, now: Millis) -> bool:
    """Returns whether members of its name have died so often that this one is expected to die, too."""
    return group.crash_loops is not None and group.crash_loops.is_looping(
        lasting_name(member.group_instance_id, member.client_id, member.client_host), now
    )


def paused(group: ClassicGroup, member: Member, now: Millis) -> MemberPaused:
    """Returns the event for a member that waits for the next generation, with the partitions that it keeps."""
    kept = owned_partitions(member.protocols[0][1]) if group.uses_consumer_protocol else NO_PARTITIONS
    return MemberPaused(group.group_id, member.member_id, kept, now)


def assigned(group: ClassicGroup, member: Member, now: Millis) -> MemberAssigned:
    """Returns the event for a member that gets its assignment."""
    return MemberAssigned(
        group.group_id, member.member_id, group.generation, assignment_of(group, member.assignment), now
    )


def new_generation(group: ClassicGroup, now: Millis) -> NewEpoch:
    """Returns the event for a new generation with the present members."""
    return NewEpoch(
        group.group_id, GroupType.CLASSIC, group.generation, tuple(group.members), now, group.topics or frozenset()
    )


def target_chosen(group: ClassicGroup, now: Millis) -> TargetChosen:
    """Returns the event for the leader's assignment, which is committed."""
    return TargetChosen(
        group.group_id, GroupType.CLASSIC, group.generation, group.protocol_name or "", _assignments(group), now
    )


def stable(group: ClassicGroup, now: Millis) -> GroupIsStable:
    """Returns the event for a generation in which nothing is left to decide."""
    return GroupIsStable(group.group_id, GroupType.CLASSIC, group.generation, now)


def loaded(group: ClassicGroup, now: Millis) -> GroupLoaded:
    """Returns the event for a group that was loaded from the log."""
    return GroupLoaded(
        group.group_id,
        GroupType.CLASSIC,
        group.generation,
        _assignments(group),
        now,
        tuple(joined(group, member, now) for member in group.members.values()),
        group.topics or frozenset(),
    )


def assignment_of(group: ClassicGroup, data: bytes) -> PartitionsByTopic:
    """Returns the partitions of an assignment in the group, not decoded yet."""
    return Assignment(data) if data and group.uses_consumer_protocol else NO_PARTITIONS


def _assignments(group: ClassicGroup) -> dict[str, PartitionsByTopic]:
    return {member.member_id: assignment_of(group, member.assignment) for member in group.members.values()}
