"""I15, I16 and of I26 that nothing waits too long, for classic groups.

Nobody stops being a member without a reason that everybody can see: it left, it was silent for its session timeout, it
did not join or sync within the rebalance timeout, or its instance came back under another id.

I16: a commit that is accepted comes from a member of the generation that is, and never from an earlier one than any
that has been told an assignment.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.checkers.ownership import Owner
from tests.simulation.checkers.sessions import SLACK_MS, Sessions
from tests.simulation.violation import Violation

from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.group_state import GroupState
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest

__all__ = ["ClassicRules"]

_WRITE_TIMEOUT_MS = 5_000
_MOST_SHARED = 6


class _Known(NamedTuple):
    """A member as the last step left it."""

    instance_id: str | None
    session_timeout_ms: int
    has_joined: bool
    has_synced: bool
    is_waiting: bool
    """Whether it waits for an answer, and so can't be heard of."""


class ClassicRules:
    """What one group may do as long as it is classic."""

    def __init__(self, group_id: str, sessions: Sessions) -> None:
        self._group_id = group_id
        self._sessions = sessions
        self.forget()

    def forget(self) -> None:
        """The group is gone; another one of its id begins anew."""
        self.told_generation = -1
        self._leaders: set[tuple[str, int]] = set()
        """Who leads which generation."""
        self._shared: list[tuple[int, dict[str, bytes]]] = []
        """What leaders have said lately that members are to have, and in which generation."""
        self.begin_round(0.0)

    def begin_round(self, now_ms: float) -> None:
        """Another coordinator has it: what was not in the log never was."""
        self._members: dict[str, _Known] | None = None
        self._state: GroupState | None = None
        self._generation = -1
        self._state_since_ms = self._generation_since_ms = now_ms
        self._awaited_since_ms = now_ms
        """Since when somebody waits for the others to join."""
        self._wait_ms = self._shortest_wait_ms = 0

    # Decisions

    def tell(self, member_id: str, generation: int) -> None:
        """A member was told what it has in a generation."""
        if generation < self.told_generation:
            raise Violation(15, f"{member_id} was given generation {generation} after {self.told_generation}")
        self.told_generation = generation

    def on_leader(self, member_id: str, generation: int) -> None:
        """The members of a generation were told who leads it."""
        self._leaders.add((member_id, generation))

    def on_shared(self, member_id: str, generation: int, assignments: dict[str, bytes]) -> None:
        """Somebody says who is to have what. If it is the leader, that counts, also if it says nothing, as its zombie
        does.
        """
        if not assignments and (member_id, generation) not in self._leaders:
            return
        self._shared = [*self._shared[-_MOST_SHARED:], (generation, assignments)]

    def check_assignment(self, member_id: str, generation: int, assignment: bytes) -> None:
        """I15: what a member is told is what a leader has shared in that generation, and in no other."""
        known = [assignments for each, assignments in self._shared if each == generation]
        # A static member that came back has what it had under another member id.
        is_known = any(assignment in assignments.values() for assignments in known)
        was_its_own = any(assignments.get(member_id) == assignment for _, assignments in self._shared)
        is_missing = bool(known) and not assignment and all(assignments.get(member_id) for assignments in known)
        if is_missing or (assignment and was_its_own and not is_known):
            raise Violation(15, f"{member_id} was told in generation {generation} what it had in another one")

    def is_gone(self, owner: Owner, generation: int, group: ClassicGroup) -> bool:
        """Whether an owner has lost what it had when that generation was told what it has."""
        if owner.member_id not in group.members:
            return owner.epoch != generation or self._sessions.has_left(owner.member_id, owner.instance_id)
        # A static member that did not join again in time stays, and what it had is given away with the generation.
        return group.members[owner.member_id].is_static and owner.epoch < generation

    def is_current(self, request: OffsetCommitRequest, group: ClassicGroup | None) -> bool:
        """I16: whether a commit that is decided now may be accepted."""
        generation = request.generation_id_or_member_epoch
        if group is None:
            return generation < 0
        if generation < 0:
            return group.state is GroupState.EMPTY
        instance_id = request.group_instance_id
        return (
            request.member_id in group.members
            and generation == group.generation
            and generation >= self.told_generation
            and group.state is not GroupState.COMPLETING_REBALANCE
            and (instance_id is None or group.static_members.get(instance_id) == request.member_id)
        )

    # After each step

    def look(self, group: ClassicGroup | None, now_ms: float) -> None:
        """The group as a step has left it."""
        if group is None:
            self._members = None
            return
        members = {
            member.member_id: _Known(
                member.group_instance_id,
                member.session_timeout_ms,
                member.join_ticket is not None,
                member.member_id not in group.pending_sync,
                member.join_ticket is not None or member.sync_ticket is not None,
            )
            for member in group.members.values()
        }
        before = self._members
        for member_id, member in members.items():
            known = None if before is None else before.get(member_id)
            if known is None or known.is_waiting or member.is_waiting:
                self._sessions.see(member_id, now_ms)
        if before is not None and before.keys() - members.keys():
            self._check_removals(before, members, now_ms)
            is_same = group.state is self._state and group.generation == self._generation
            if is_same and group.state is GroupState.COMPLETING_REBALANCE:
                gone = sorted(before.keys() - members.keys())
                raise Violation(26, f"{gone} left {self._group_id}, whose leader shares as if they were there")
        if group.state is not self._state or group.generation != self._generation:
            self._begin_sessions(group.state, members, now_ms)
            if group.generation != self._generation:
                self._generation_since_ms = now_ms
            self._state, self._generation = group.state, group.generation
            self._state_since_ms = now_ms
            self._wait_ms = group.rebalance_timeout_ms
            # The first round of a group waits for newcomers only, and all members are such.
            is_first = group.initial_remaining_ms is not None
            self._shortest_wait_ms = group.initial_delay_ms if is_first else self._wait_ms
        if not group.awaiting_join:
            self._awaited_since_ms = now_ms
        self._members = members

    def _begin_sessions(self, state: GroupState, members: dict[str, _Known], now_ms: float) -> None:
        """A new generation begins all sessions anew, and an assignment those of its members that wait for it."""
        if state is GroupState.COMPLETING_REBALANCE:
            for member_id in members:
                self._sessions.hear(member_id, now_ms)
        elif state is GroupState.STABLE and self._members is not None:
            for member_id, member in self._members.items():
                if member.is_waiting:
                    self._sessions.hear(member_id, now_ms)

    def _check_removals(self, before: dict[str, _Known], members: dict[str, _Known], now_ms: float) -> None:
        instances = {member.instance_id for member in members.values()} - {None}
        for member_id in sorted(before.keys() - members.keys()):
            # A static member whose new id could not be stored has its old one back.
            if before[member_id].instance_id not in instances:
                self._check_removal(member_id, before[member_id], now_ms)

    def _check_removal(self, member_id: str, member: _Known, now_ms: float) -> None:
        if self._sessions.has_left(member_id, member.instance_id):
            return
        silent_ms = self._sessions.least_silence_ms(member_id, now_ms)
        if silent_ms >= member.session_timeout_ms - 1:
            return
        waited_ms = now_ms - self._state_since_ms
        is_waited_for = self._state is GroupState.PREPARING_REBALANCE and not member.has_joined
        if is_waited_for and waited_ms >= self._shortest_wait_ms - 1:
            return
        if not member.has_synced and now_ms - self._generation_since_ms >= self._wait_ms - 1:
            return
        raise Violation(
            15,
            f"{member_id} is no member any more: heard of {silent_ms:.0f} ms ago,"
            f" group {self._state} for {waited_ms:.0f} ms, {member}",
        )

    def check_waits(self, group: ClassicGroup, now_ms: float, initial_delay_ms: int) -> None:
        """I26: nothing waits for a dead member longer than its session timeout, or than a rebalance may last."""
        for member in group.members.values():
            if member.join_ticket is not None or member.sync_ticket is not None:
                continue
            silent_ms = self._sessions.certain_silence_ms(member.member_id, now_ms)
            if silent_ms > member.session_timeout_ms + SLACK_MS:
                raise Violation(26, f"{member.member_id} has been silent for {silent_ms:.0f} ms")
        waited_ms = now_ms - max(self._state_since_ms, self._sessions.forgiven_ms)
        most_ms = max(group.rebalance_timeout_ms, self._wait_ms) + SLACK_MS
        if group.state is GroupState.PREPARING_REBALANCE and group.awaiting_join:
            waited_ms = min(waited_ms, now_ms - self._awaited_since_ms)
            most_ms += initial_delay_ms
        elif group.state is GroupState.COMPLETING_REBALANCE:
            most_ms += _WRITE_TIMEOUT_MS
        else:
            return
        if waited_ms > most_ms:
            raise Violation(26, f"{self._group_id} has been {group.state.value} for {waited_ms:.0f} ms")
