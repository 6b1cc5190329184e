"""One change of a group from beginning to end, as it was seen, and what can be worked out from it.

What costs something (decoding assignments, comparing them) is done when somebody asks, so that whoever sees the change
happen need not wait for it.
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
    """Every member has what it is to have."""
    SUPERSEDED = "superseded"
    """The next change began before every member had."""
    EMPTY = "empty"
    """Nobody is left."""
    DELETED = "deleted"
    """The group is gone."""
    TAKEN_OVER = "taken_over"
    """Another coordinator has the group now, and found it like this."""


class MemberThen(NamedTuple):
    """A member and what it has at some moment."""

    identity: MemberJoined
    partitions: PartitionsByTopic

    @property
    def lasting_name(self) -> tuple[bool, str]:
        """The instance id of a static member, which keeps its place under another member id; else the member id."""
        instance_id = self.identity.instance_id
        return (False, self.identity.member_id) if instance_id is None else (True, instance_id)


class Pause(NamedTuple):
    """A member that stopped and was assigned again: for how long, with what, and what it went on reading."""

    member_id: str
    ms: int
    before: PartitionsByTopic
    kept: PartitionsByTopic
    after: PartitionsByTopic

    def concerns_something(self) -> bool:
        """Whether it was without something that it had before and has after."""
        nothing: frozenset[PartitionIndex] = frozenset()
        return any(
            (partitions & self.after.get(topic, nothing)) - self.kept.get(topic, nothing)
            for topic, partitions in self.before.items()
        )


class Move(NamedTuple):
    """A partition that had one owner before and has another one after; None is nobody."""

    topic: str
    partition: PartitionIndex
    from_member: str | None
    to_member: str | None


def owners_of(members: Mapping[str, MemberThen]) -> dict[PartitionKey, MemberJoined]:
    """Who has which partition."""
    return {
        (topic, partition): member.identity
        for member in members.values()
        for topic, partitions in member.partitions.items()
        for partition in partitions
    }


class Settled(NamedTuple):
    """Who has which partition: as members have it, or else as was worked out already."""

    members: Mapping[str, MemberThen]
    known: Owners | None = None

    def owners(self) -> Owners:
        """The owners by partition."""
        return owners_of(self.members) if self.known is None else self.known


class UnderWay(NamedTuple):
    """A change that is not over yet."""

    started_at: Millis
    causes: tuple[RebalanceNeeded, ...]
    """In order; there is always one."""


@dataclass(slots=True, eq=False)
class Change:
    """A change that is over."""

    group_id: str
    group_type: GroupType
    sequence: int
    """Counts the changes of the group under its present coordinator, from 0."""
    previous_epoch: int
    epoch: int
    """The generation or group epoch."""
    outcome: Outcome
    causes: Sequence[RebalanceNeeded]
    """In order; there is always one."""
    assignor: str | None
    """Who assigned; None if it did not come to that."""
    started_at: Millis
    finished_at: Millis
    before: Mapping[str, MemberThen]
    after: Mapping[str, MemberThen]
    settled: Settled
    """The group when it was last at rest: that is what moves are told from."""
    pauses: Sequence[Pause]
    still_paused: Collection[str]
    """Members that wait to be assigned: their pauses belong to a later change."""

    def decode(self) -> None:
        """Decode each assignment once, before it is looked at again and again."""
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
        """Partitions that changed hands, by topic and partition.

        In a change that was superseded a partition without owner is on its way, and not told yet.
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
        """For each member that has something it had before: for how long it was without."""
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
    """Turns lazy assignments into dicts, each once: one and the same stands in many places."""

    def __init__(self) -> None:
        self._decoded: dict[int, PartitionsByTopic] = {}

    def members(self, members: Mapping[str, MemberThen]) -> Mapping[str, MemberThen]:
        """The members with what they have."""
        return {
            member_id: MemberThen(member.identity, self.partitions(member.partitions))
            for member_id, member in members.items()
        }

    def partitions(self, partitions: PartitionsByTopic) -> PartitionsByTopic:
        """What an assignment says; it must outlive the decoder."""
        decoded = self._decoded.get(id(partitions))
        if decoded is None:
            decoded = self._decoded[id(partitions)] = dict(partitions.items())
        return decoded


def _is_same(one: MemberJoined | None, other: MemberJoined | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.member_id == other.member_id or (one.instance_id is not None and one.instance_id == other.instance_id)
