"""One change of a group from beginning to end, and what can be computed from it.

Slow work (decoding and comparing assignments) is done only on demand, so that recording a change is fast.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from klamm.core.group.events import GroupType, MemberJoined, PartitionsByTopic, RebalanceNeeded
from klamm.protocol.types import Millis, PartitionIndex

__all__ = ["Change", "MemberThen", "Move", "Outcome", "Owners", "Pause", "Settled", "UnderWay", "owners_of"]

PartitionKey: TypeAlias = tuple[str, PartitionIndex]
Owners: TypeAlias = Mapping[PartitionKey, MemberJoined]


class Outcome(Enum):
    """How a change of a group ended; the value is the word in the record."""

    STABLE = "stable"
    """Every member has its assignment."""
    SUPERSEDED = "superseded"
    """The next change began before every member had its assignment."""
    EMPTY = "empty"
    """No member is left."""
    DELETED = "deleted"
    """The group is gone."""
    TAKEN_OVER = "taken_over"
    """Another coordinator has taken the group over and found it in this state."""
    LIMITED = "limited"
    """The group has not changed: its lag grows, for the cause that is named."""
    KEEPS_UP = "keeps_up"
    """The group has not changed: a limit that was recorded has ended."""


class MemberThen(NamedTuple):
    """A member with its partitions at one moment."""

    identity: MemberJoined
    partitions: PartitionsByTopic

    @property
    def lasting_name(self) -> tuple[bool, str]:
        """The instance id of a static member, which survives a new member id; else the member id."""
        instance_id = self.identity.instance_id
        return (False, self.identity.member_id) if instance_id is None else (True, instance_id)


class Pause(NamedTuple):
    """A pause of a member until its next assignment: the length, and the partitions before, during and after it."""

    member_id: str
    ms: int
    before: PartitionsByTopic
    kept: PartitionsByTopic
    after: PartitionsByTopic

    def concerns_something(self) -> bool:
        """Returns whether the member was without a partition that it had before and has after."""
        nothing: frozenset[PartitionIndex] = frozenset()
        return any(
            (partitions & self.after.get(topic, nothing)) - self.kept.get(topic, nothing)
            for topic, partitions in self.before.items()
        )


class Move(NamedTuple):
    """A partition with another owner after than before; None means no owner."""

    topic: str
    partition: PartitionIndex
    from_member: str | None
    to_member: str | None


def owners_of(members: Mapping[str, MemberThen]) -> dict[PartitionKey, MemberJoined]:
    """Returns the owner of each partition."""
    return {
        (topic, partition): member.identity
        for member in members.values()
        for topic, partitions in member.partitions.items()
        for partition in partitions
    }


class Settled(NamedTuple):
    """The state that moves are computed from: members, or the owners if they are computed already."""

    members: Mapping[str, MemberThen]
    known: Owners | None = None

    def owners(self) -> Owners:
        """Returns the owner of each partition."""
        return owners_of(self.members) if self.known is None else self.known


class UnderWay(NamedTuple):
    """A change in progress."""

    started_at: Millis
    causes: tuple[RebalanceNeeded, ...]
    """In order; at least one."""


@dataclass(slots=True, eq=False)
class Change:
    """A finished change."""

    group_id: str
    group_type: GroupType
    sequence: int
    """Counts the changes of the group under its present coordinator, from 0."""
    previous_epoch: int
    epoch: int
    """The generation or group epoch."""
    outcome: Outcome
    causes: Sequence[RebalanceNeeded]
    """In order; at least one."""
    assignor: str | None
    """The assignor; None if no target was chosen."""
    started_at: Millis
    finished_at: Millis
    before: Mapping[str, MemberThen]
    after: Mapping[str, MemberThen]
    settled: Settled
    """The group when it was last at rest; moves are computed from it."""
    pauses: Sequence[Pause]
    still_paused: Collection[str]
    """Members that still wait for an assignment; their pauses belong to a later change."""

    def decode(self) -> None:
        """Decodes each assignment once, before it is read many times."""
        decode = _Decoder()
        is_settled_before = self.settled.members is self.before
        self.before = decode.members(self.before)
        self.after = decode.members(self.after)
        self.settled = self.settled._replace(
            members=self.before if is_settled_before else decode.members(self.settled.members)
        )
        self.pauses = [
            pause._replace(before=decode.partitions(pause.before), after=decode.partitions(pause.after))
            for pause in self.pauses
        ]

    def moves(self) -> list[Move]:
        """Returns the partitions with another owner than before, sorted by topic and partition.

        In a superseded change, a partition without an owner is still moving and is left out.
        """
        before, after = self.settled.owners(), owners_of(self.after)
        is_over = self.outcome is not Outcome.SUPERSEDED
        moves = []
        for key in sorted(before.keys() | after.keys()):
            old, new = before.get(key), after.get(key)
            if _is_same(old, new) or (new is None and not is_over):
                continue
            moves.append(Move(*key, None if old is None else old.member_id, None if new is None else new.member_id))
        return moves

    def pauses_ms(self) -> Iterator[tuple[str, int]]:
        """Yields each member that has a partition it had before, with how long in ms it was without such partitions."""
        lost_ms: dict[str, int] = {}
        for pause in self.pauses:
            lost_ms.setdefault(pause.member_id, 0)
            if pause.concerns_something():
                lost_ms[pause.member_id] += pause.ms
        before = {member.lasting_name: member for member in self.before.values()}
        for member_id, member in self.after.items():
            earlier = before.get(member.lasting_name)
            if earlier is None or member_id in self.still_paused:
                continue
            had = earlier.partitions
            if any(partitions & had.get(topic, frozenset()) for topic, partitions in member.partitions.items()):
                yield member_id, lost_ms.get(member_id, 0)


class _Decoder:
    """A decoder of lazy assignments into dicts; each is decoded once, since the same object is in many places."""

    def __init__(self) -> None:
        self._decoded: dict[int, PartitionsByTopic] = {}

    def members(self, members: Mapping[str, MemberThen]) -> Mapping[str, MemberThen]:
        """Returns the members with decoded partitions."""
        return {
            member_id: MemberThen(member.identity, self.partitions(member.partitions))
            for member_id, member in members.items()
        }

    def partitions(self, partitions: PartitionsByTopic) -> PartitionsByTopic:
        """Returns the decoded assignment. The argument must outlive the decoder, whose cache uses its `id`."""
        decoded = self._decoded.get(id(partitions))
        if decoded is None:
            decoded = self._decoded[id(partitions)] = dict(partitions.items())
        return decoded


def _is_same(one: MemberJoined | None, other: MemberJoined | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.member_id == other.member_id or (one.instance_id is not None and one.instance_id == other.instance_id)
