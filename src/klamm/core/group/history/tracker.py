"""The tracker of one group: follows its events and finds where one change ends and the next begins.

A change begins with its first cause, or with the event of the member that brings it. It gathers more causes, raises the
epoch, and ends when the group is stable, or when the next change begins before that. Without a change in progress, only
the present state of the group is kept: the "before" of its next change.

Events may be missing (a decision that could not be written publishes none). Then a change is recorded too late or with
the wrong cause, which its epochs show; nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final

from klamm.core.group.events import (
    Cause,
    Event,
    GroupDeleted,
    GroupIsStable,
    GroupLimited,
    GroupLoaded,
    GroupType,
    MemberAssigned,
    MemberJoined,
    MemberPaused,
    MemberRemoved,
    NewEpoch,
    PartitionsByTopic,
    RebalanceNeeded,
    Remark,
    TargetChosen,
)
from klamm.core.group.history.change import Change, MemberThen, Outcome, Pause, Settled, UnderWay, owners_of
from klamm.protocol.types import Millis

__all__ = ["GroupTracker"]

_NO_PARTITIONS: Final[PartitionsByTopic] = {}
_BEGINNINGS: Final = (RebalanceNeeded, NewEpoch, MemberJoined, MemberRemoved, MemberPaused)


class _Open:
    """A change in progress."""

    __slots__ = (
        "assigned",
        "assignor",
        "awaited",
        "before",
        "causes",
        "has_new_epoch",
        "last_at",
        "pauses",
        "previous_epoch",
        "settled",
        "stable_at",
        "started_at",
        "substitute",
    )

    def __init__(self, started_at: Millis, epoch: int, before: Mapping[str, MemberThen], settled: Settled) -> None:
        self.started_at = started_at
        self.last_at = started_at
        self.previous_epoch = epoch
        self.before = before
        self.settled = settled
        self.causes: list[RebalanceNeeded] = []
        self.substitute: RebalanceNeeded | None = None
        """The cause to record if no event gives one: a member that joined or was removed."""
        self.has_new_epoch = False
        self.assigned: dict[str, MemberThen] = {}
        """Members that were assigned something since the change began, in their present state."""
        self.awaited: set[str] = set()
        """Members of a classic group that have not got their assignment yet."""
        self.stable_at: Millis | None = None
        self.assignor: str | None = None
        self.pauses: list[Pause] = []


class GroupTracker:
    """The known state of one group; `is_gone` once it was deleted."""

    __slots__ = (
        "_epoch",
        "_group_id",
        "_group_type",
        "_loaded_at",
        "_members",
        "_open",
        "_paused",
        "_replaced",
        "_sequence",
        "_topics",
        "is_gone",
    )

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._group_type = GroupType.CLASSIC
        self._epoch = 0
        self._members: dict[str, MemberThen] = {}
        self._topics: frozenset[str] = frozenset()
        self._sequence = 0
        self._open: _Open | None = None
        self._paused: dict[str, tuple[Millis, PartitionsByTopic]] | None = None
        """Since when members are paused, and which partitions they keep reading; None if none has paused."""
        self._replaced: MemberThen | None = None
        """A static member that was removed and returns under another member id in the same decision."""
        self._loaded_at: Millis | None = None
        """When the group was taken over, until the first change after it records that, too."""
        self.is_gone = False

    def take(self, events: Sequence[Event], hidden_topic: str) -> list[Change]:
        """Returns the changes that end with these events of one decision.

        Changes of a group that subscribes to `hidden_topic` are left out.
        """
        done: list[Change] = []
        for index, event in enumerate(events):
            if isinstance(event, _BEGINNINGS) and self._begins(event, events[index:]):
                self._begin(event, done)
            _HANDLERS[type(event)](self, event, done)
        if hidden_topic in self._topics:
            return []
        for change in done:
            change.sequence = self._sequence
            self._sequence += 1
        return done

    def under_way(self) -> UnderWay | None:
        """Returns the change in progress with the causes known so far; None while the group is at rest."""
        change = self._open
        if change is None or (change.stable_at is not None and not change.awaited):
            return None
        causes = change.causes or ([] if change.substitute is None else [change.substitute])
        return UnderWay(change.started_at, tuple(causes)) if causes else None

    def members_at_rest(self) -> Mapping[str, MemberThen] | None:
        """Returns the members; None while a change is in progress."""
        return None if self._open is not None else self._members

    # Where changes begin and end

    def _begins(self, event: Event, decision: Sequence[Event]) -> bool:
        """Returns whether a new change begins with this event."""
        change = self._open
        if change is None:
            return True
        if isinstance(event, RebalanceNeeded):
            return change.has_new_epoch and event.epoch != change.previous_epoch
        if isinstance(event, NewEpoch):
            return change.has_new_epoch and event.epoch != self._epoch
        # A member that joins or leaves belongs to the rebalance that the same decision causes. If it causes none, as
        # for a static member that returns, the member belongs to the change in progress.
        return change.has_new_epoch and any(isinstance(other, RebalanceNeeded | NewEpoch) for other in decision)

    def _begin(
        self, event: RebalanceNeeded | NewEpoch | MemberJoined | MemberRemoved | MemberPaused, done: list[Change]
    ) -> None:
        before = dict(self._members)
        settled = Settled(before)
        if self._open is not None:
            assigned = self._open.assigned
            ended = self._end(Outcome.SUPERSEDED, event.at)
            done.append(ended)
            settled = _settled_after(ended, assigned)
        elif self._loaded_at is not None:
            done.append(self._take_over(self._loaded_at, before))
            self._loaded_at = None
        self._open = _Open(event.at, self._epoch, before, settled)

    def _end(self, outcome: Outcome, at: Millis) -> Change:
        change = self._open
        assert change is not None
        self._open = None
        if change.stable_at is not None:
            outcome = Outcome.STABLE if self._members else Outcome.EMPTY
            at = max(change.stable_at, change.last_at)
        return Change(
            group_id=self._group_id,
            group_type=self._group_type,
            sequence=0,
            previous_epoch=change.previous_epoch,
            epoch=self._epoch,
            outcome=outcome,
            causes=change.causes or [change.substitute or self._cause(Cause.UNKNOWN, None, "it is not known why", at)],
            assignor=change.assignor,
            started_at=change.started_at,
            finished_at=at,
            before=change.before,
            after=dict(self._members),
            settled=change.settled,
            pauses=change.pauses,
            still_paused=frozenset(self._paused or ()),
        )

    def _take_over(self, at: Millis, members: Mapping[str, MemberThen]) -> Change:
        detail = "another coordinator has taken the group over"
        return self._momentary(Outcome.TAKEN_OVER, self._cause(Cause.COORDINATOR_MOVED, None, detail, at), members)

    def _momentary(self, outcome: Outcome, cause: RebalanceNeeded, members: Mapping[str, MemberThen]) -> Change:
        return Change(
            group_id=self._group_id,
            group_type=self._group_type,
            sequence=0,
            previous_epoch=self._epoch,
            epoch=self._epoch,
            outcome=outcome,
            causes=[cause],
            assignor=None,
            started_at=cause.at,
            finished_at=cause.at,
            before=members,
            after=members,
            settled=Settled(members),
            pauses=(),
            still_paused=(),
        )

    def _cause(self, cause: Cause, member_id: str | None, detail: str, at: Millis) -> RebalanceNeeded:
        return RebalanceNeeded(self._group_id, self._group_type, self._epoch, cause, member_id, detail, at)

    # Handlers of events

    def _on_paused(self, event: MemberPaused, done: list[Change]) -> None:
        if self._paused is None:
            self._paused = {}
        self._paused.setdefault(event.member_id, (event.at, event.kept))

    def _on_joined(self, event: MemberJoined, done: list[Change]) -> None:
        member = MemberThen(event, self._inherited(event))
        self._members[event.member_id] = member
        if self._open is not None and member.partitions:
            self._open.assigned[event.member_id] = member
        detail = f"member {event.member_id} joined"
        self._note_substitute(self._cause(Cause.MEMBER_JOINED, event.member_id, detail, event.at))

    def _on_removed(self, event: MemberRemoved, done: list[Change]) -> None:
        if event.cause is Cause.STATIC_MEMBER_RETURNED:
            self._replaced = self._members.get(event.member_id)
        self._drop(event.member_id)
        self._note_substitute(self._cause(event.cause, event.member_id, event.detail, event.at))

    def _on_target(self, event: TargetChosen, done: list[Change]) -> None:
        if self._open is not None:
            self._open.assignor = event.assignor or None

    def _on_needed(self, event: RebalanceNeeded, done: list[Change]) -> None:
        change = self._open
        assert change is not None
        if not self._epoch:
            # The group is older than this tracker: it was empty when it was loaded.
            self._epoch = change.previous_epoch = event.epoch
        self._group_type = event.group_type
        change.causes.append(event)

    def _on_new_epoch(self, event: NewEpoch, done: list[Change]) -> None:
        change = self._open
        assert change is not None
        self._epoch = event.epoch
        self._group_type = event.group_type
        if event.member_ids:
            self._topics = event.topics
        member_ids = set(event.member_ids)
        if self._members.keys() != member_ids:
            self._correct_members(member_ids, event.at)
        change.has_new_epoch = True
        if event.group_type is GroupType.CLASSIC:
            change.awaited = member_ids

    def _correct_members(self, member_ids: Set[str], at: Millis) -> None:
        """Sets the members to these, in case events are missing."""
        for member_id in self._members.keys() - member_ids:
            self._drop(member_id)
        for member_id in sorted(member_ids - self._members.keys()):
            unknown = MemberJoined(self._group_id, member_id, None, "", "", at)
            self._members[member_id] = MemberThen(unknown, _NO_PARTITIONS)

    def _on_assigned(self, event: MemberAssigned, done: list[Change]) -> None:
        member = self._members.get(event.member_id)
        if member is None:
            return
        member_now = MemberThen(member.identity, event.assigned)
        self._members[event.member_id] = member_now
        paused = None if self._paused is None else self._paused.pop(event.member_id, None)
        change = self._open
        if change is None:
            return
        change.last_at = event.at
        change.assigned[event.member_id] = member_now
        change.awaited.discard(event.member_id)
        if paused is not None:
            since, kept = paused
            ms = max(0, event.at - since)
            change.pauses.append(Pause(event.member_id, ms, member.partitions, kept, event.assigned))
        self._end_if_at_rest(done)

    def _on_stable(self, event: GroupIsStable, done: list[Change]) -> None:
        change = self._open
        if change is None or event.epoch != self._epoch or (change.causes and not change.has_new_epoch):
            return  # The epoch is older than that of the change in progress.
        change.stable_at = event.at
        self._end_if_at_rest(done)

    def _end_if_at_rest(self, done: list[Change]) -> None:
        change = self._open
        if change is not None and change.stable_at is not None and not change.awaited:
            done.append(self._end(Outcome.STABLE, change.stable_at))

    def _on_loaded(self, event: GroupLoaded, done: list[Change]) -> None:
        self._group_type = event.group_type
        self._epoch = event.epoch
        self._topics = event.topics
        self._open = None
        self._paused = None
        self._loaded_at = event.at
        identities = {member.member_id: member for member in event.members}
        self._members = {
            member_id: MemberThen(
                identities.get(member_id) or MemberJoined(event.group_id, member_id, None, "", "", event.at), assigned
            )
            for member_id, assigned in event.assignments.items()
        }

    def _on_deleted(self, event: GroupDeleted, done: list[Change]) -> None:
        if self._open is not None:
            done.append(self._end(Outcome.SUPERSEDED, event.at))
        if not self._epoch:
            self._epoch, self._group_type = event.epoch, event.group_type
        is_expired = event.cause is Cause.OFFSETS_EXPIRED
        detail = "all its offsets have expired" if is_expired else "it was deleted with all it had committed"
        done.append(self._momentary(Outcome.DELETED, self._cause(event.cause, None, detail, event.at), {}))
        self.is_gone = True

    def _on_limited(self, event: GroupLimited, done: list[Change]) -> None:
        if self._open is None:
            outcome = Outcome.KEEPS_UP if event.cause is Cause.KEEPS_UP else Outcome.LIMITED
            done.append(
                self._momentary(outcome, self._cause(event.cause, None, event.detail, event.at), dict(self._members))
            )

    def _drop(self, member_id: str) -> None:
        self._members.pop(member_id, None)
        if self._paused is not None:
            self._paused.pop(member_id, None)
        if self._open is not None:
            self._open.awaited.discard(member_id)
            self._open.assigned.pop(member_id, None)

    def _inherited(self, joined: MemberJoined) -> PartitionsByTopic:
        """Returns the partitions that a static member had under its former member id."""
        replaced, self._replaced = self._replaced, None
        if replaced is None or joined.instance_id is None or replaced.identity.instance_id != joined.instance_id:
            return _NO_PARTITIONS
        return replaced.partitions

    def _note_substitute(self, cause: RebalanceNeeded) -> None:
        change = self._open
        if change is not None and change.substitute is None:
            change.substitute = cause


_HANDLERS: Final[Mapping[type, Callable[[GroupTracker, Any, list[Change]], None]]] = {
    RebalanceNeeded: GroupTracker._on_needed,
    MemberJoined: GroupTracker._on_joined,
    MemberRemoved: GroupTracker._on_removed,
    MemberPaused: GroupTracker._on_paused,
    NewEpoch: GroupTracker._on_new_epoch,
    TargetChosen: GroupTracker._on_target,
    MemberAssigned: GroupTracker._on_assigned,
    GroupIsStable: GroupTracker._on_stable,
    GroupLoaded: GroupTracker._on_loaded,
    GroupDeleted: GroupTracker._on_deleted,
    GroupLimited: GroupTracker._on_limited,
    Remark: lambda tracker, event, done: None,
}


def _settled_after(ended: Change, assigned: Mapping[str, MemberThen]) -> Settled:
    """Returns the state that the next change's moves are computed from; `assigned` were assigned during `ended`."""
    if ended.outcome is not Outcome.SUPERSEDED:
        return Settled(ended.after)
    if ended.group_type is GroupType.CLASSIC:
        return ended.settled  # No member was assigned anything meanwhile.
    # Members are assigned one by one: partitions with a new owner are recorded already. If many members join a large
    # group one by one, a change assigns few of them; the owners of the rest are known from the change before.
    known = ended.settled.known
    if known is None:
        return Settled({}, {**ended.settled.owners(), **owners_of(ended.after)})
    return Settled({}, {**known, **owners_of(assigned)} if assigned else known)
