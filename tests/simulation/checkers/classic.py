"""I15, I16 and a part of I26 (nothing waits too long), for classic groups.

A member is removed only for a visible reason. It left; it was silent for its session timeout; it did not join or sync
within the rebalance timeout; or its instance came back under another member id.

I16: an accepted commit comes from a member of the current generation. Its generation is never earlier than a generation
whose assignment was sent to a member.
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
    """A member after the last step."""

    instance_id: str | None
    session_timeout_ms: int
    has_joined: bool
    has_synced: bool
    is_waiting: bool
    """Whether the member waits for an answer, and so sends no heartbeats."""


class ClassicRules:
    """The rules for one group while it is classic."""

    def __init__(self, group_id: str, sessions: Sessions) -> None:
        self._group_id = group_id
        self._sessions = sessions
        self.forget()

    def forget(self) -> None:
        """Resets the state: the group is deleted, and a new group may get its id."""
        self.told_generation = -1
        self._leaders: set[tuple[str, int]] = set()
        """The leaders, each with its generation."""
        self._shared: list[tuple[int, dict[str, bytes]]] = []
        """The assignments that leaders sent lately, each with its generation."""
        self.begin_round(0.0)

    def begin_round(self, now_ms: float) -> None:
        """Starts a new round: another coordinator leads the group, and knows only what the log contains."""
        self._members: dict[str, _Known] | None = None
        self._state: GroupState | None = None
        self._generation = -1
        self._state_since_ms = self._generation_since_ms = now_ms
        self._awaited_since_ms = now_ms
        """The time since which a member has waited for the others to join."""
        self._wait_ms = self._shortest_wait_ms = 0

    # Decisions

    def tell(self, member_id: str, generation: int) -> None:
        """Checks and records the generation of an assignment that a member got."""
        if generation < self.told_generation:
            raise Violation(15, f"{member_id} was given generation {generation} after {self.told_generation}")
        self.told_generation = generation

    def on_leader(self, member_id: str, generation: int) -> None:
        """Records which member leads a generation."""
        self._leaders.add((member_id, generation))

    def on_shared(self, member_id: str, generation: int, assignments: dict[str, bytes]) -> None:
        """Records an assignment in a SyncGroup request. An empty assignment counts only if it comes from the
        generation's leader, for example from the leader's zombie.
        """
        if not assignments and (member_id, generation) not in self._leaders:
            return
        self._shared = [*self._shared[-_MOST_SHARED:], (generation, assignments)]

    def check_assignment(self, member_id: str, generation: int, assignment: bytes) -> None:
        """I15: checks that a member's assignment comes from the leader of that generation, not of another one."""
        known = [assignments for each, assignments in self._shared if each == generation]
        # A static member that came back gets the assignment of its former member id.
        is_known = any(assignment in assignments.values() for assignments in known)
        was_its_own = any(assignments.get(member_id) == assignment for _, assignments in self._shared)
        is_missing = bool(known) and not assignment and all(assignments.get(member_id) for assignments in known)
        if is_missing or (assignment and was_its_own and not is_known):
            raise Violation(15, f"{member_id} was told in generation {generation} what it had in another one")

    def is_gone(self, owner: Owner, generation: int, group: ClassicGroup) -> bool:
        """Returns whether an owner had lost its partitions when `generation` got its assignment."""
        if owner.member_id not in group.members:
            return owner.epoch != generation or self._sessions.has_left(owner.member_id, owner.instance_id)
        # A static member that did not join again in time stays a member, but the generation gives its partitions away.
        return group.members[owner.member_id].is_static and owner.epoch < generation

    def is_current(self, request: OffsetCommitRequest, group: ClassicGroup | None) -> bool:
        """I16: returns whether a commit that is decided now may be accepted."""
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
        """Compares the group after a step with the group before it."""
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
            # The first rebalance of a group waits only for new members, and all its members are new.
            is_first = group.initial_remaining_ms is not None
            self._shortest_wait_ms = group.initial_delay_ms if is_first else self._wait_ms
        if not group.awaiting_join:
            self._awaited_since_ms = now_ms
        self._members = members

    def _begin_sessions(self, state: GroupState, members: dict[str, _Known], now_ms: float) -> None:
        """Restarts all sessions for a new generation, and for an assignment the sessions of the waiting members."""
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
            # A static member gets its former member id back if the new one could not be stored.
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
        """I26: checks that nothing waits longer than a dead member's session timeout, or longer than a rebalance may
        take.
        """
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
