"""I15, I16, I19 and a part of I26 (nothing waits too long), for consumer groups (KIP-848).

A silent member is removed after its session timeout. A member that does not give up its revoked partitions is removed
after its rebalance timeout. No member is removed earlier. A member with the classic protocol is also removed if it does
not join or sync within its rebalance timeout.

I16: an accepted commit has the member's epoch, or an older epoch in which the member already had the partition
(KIP-1251).
"""

from __future__ import annotations

from collections.abc import Container, Set
from typing import NamedTuple

from tests.simulation.checkers.ownership import Ownership
from tests.simulation.checkers.sessions import SLACK_MS, Sessions
from tests.simulation.notes import in_words
from tests.simulation.topics import DataPartition
from tests.simulation.violation import Violation

from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import STATIC_LEAVING_EPOCH, Assigned, ConsumerGroupMember
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["ConsumerRules"]


class _Known(NamedTuple):
    """A member after the last step."""

    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    is_classic: bool
    is_away: bool
    """Whether the member is static and has left with the promise to come back: its place stays reserved."""
    has_to_let_go: bool
    partitions: tuple[Assigned, Assigned]
    """The assigned partitions, and the partitions that the member must give up."""


class ConsumerRules:
    """The rules for one group while it is a consumer group."""

    def __init__(self, sessions: Sessions, ownership: Ownership, session_timeout_ms: int) -> None:
        self._sessions = sessions
        self._ownership = ownership
        self._session_timeout_ms = session_timeout_ms
        self.begin_round(0.0)

    def begin_round(self, now_ms: float) -> None:
        """Starts a new round: another coordinator leads the group, and restarts all timeouts."""
        self._members: dict[str, _Known] | None = None
        self._holds_since_ms: dict[str, float] = {}
        self._synced_ms: dict[str, float] = {}
        self._loaded_ms = now_ms

    # Decisions

    def sync(self, member_id: str, now_ms: float) -> None:
        """Records that a member with the classic protocol got its assignment: it has joined and synced."""
        self._synced_ms[member_id] = now_ms

    def stale(
        self, request: OffsetCommitRequest, partitions: frozenset[DataPartition], group: ConsumerGroup
    ) -> frozenset[DataPartition]:
        """I16: returns the partitions for which a commit that is decided now must not be accepted."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not group.members:
            return frozenset()
        member = group.members.get(request.member_id)
        if member is None or epoch > member.member_epoch:
            return partitions
        if epoch == member.member_epoch:
            return frozenset()
        stale = set()
        for topic_id, index in partitions:
            since = member.assignment_epoch(topic_id, PartitionIndex(index))
            owner = self._ownership.owner((topic_id, index))
            if since is None or since > epoch or (owner is not None and owner.member_id != member.member_id):
                stale.add((topic_id, index))
        return frozenset(stale)

    def check_kept(
        self, member_id: str, taken: Set[DataPartition], group: ConsumerGroup, topics: Container[TopicId]
    ) -> None:
        """I19: checks that a member need not give up a partition which the target still assigns to it, if the topic
        exists.

        Call it in the step that decided what is `taken`.
        """
        member = group.members.get(member_id)
        if member is None:
            return
        target = group.target_of(member.member_id, member.instance_id)
        for topic_id, index in sorted(taken):
            owner = self._ownership.owner((topic_id, index))
            is_its_own = owner is not None and owner.member_id == member_id
            # A partition that an earlier target took away must be given up first, even if the current target gives it
            # back.
            is_kept = index in target.get(topic_id, ()) and index not in member.pending_revocation.get(topic_id, ())
            if is_its_own and is_kept and topic_id in topics:
                raise Violation(
                    19, f"{member_id} was told to stop reading {in_words((topic_id, index))}, and is to have it"
                )

    # After each step

    def look(self, group: ConsumerGroup | None, now_ms: float) -> None:
        """Compares the group after a step with the group before it."""
        if group is None:
            self._members = None
            return
        members = {member.member_id: self._know(member) for member in group.members.values()}
        before = self._members
        for member_id in sorted((before or members).keys() - members.keys()):
            assert before is not None
            self._check_removal(member_id, before[member_id], now_ms)
            self._ownership.take_out(member_id)
        for member_id, member in members.items():
            if before is None or member_id not in before:
                self._sessions.see(member_id, now_ms)
            if not member.has_to_let_go:
                self._holds_since_ms.pop(member_id, None)
            elif before is None or member_id not in before or before[member_id].partitions != member.partitions:
                # When the partitions of a member change, its rebalance timeout starts again.
                self._holds_since_ms[member_id] = now_ms
        self._members = members

    def _know(self, member: ConsumerGroupMember) -> _Known:
        classic = member.classic
        return _Known(
            member.instance_id,
            self._session_timeout_ms if classic is None else classic.session_timeout_ms,
            member.rebalance_timeout_ms,
            classic is not None,
            member.member_epoch == STATIC_LEAVING_EPOCH,
            member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch >= 0 and classic is None,
            (member.assigned, member.pending_revocation),
        )

    def _check_removal(self, member_id: str, member: _Known, now_ms: float) -> None:
        is_replaced = member_id not in self._sessions.left and member.instance_id in self._sessions.returning
        if self._sessions.has_left(member_id, member.instance_id) and (
            not is_replaced or member.is_away or member.is_classic
        ):
            return
        silent_ms = self._sessions.least_silence_ms(member_id, now_ms)
        if silent_ms >= member.session_timeout_ms - 1:
            return
        holds_ms = now_ms - self._holds_since_ms.get(member_id, now_ms)
        if member.has_to_let_go and holds_ms >= member.rebalance_timeout_ms - 1:
            return
        unsynced_ms = now_ms - max(self._synced_ms.get(member_id, 0.0), self._loaded_ms)
        if member.is_classic and unsynced_ms >= member.rebalance_timeout_ms - 1:
            return
        raise Violation(
            15,
            f"{member_id} is no member any more: heard of {silent_ms:.0f} ms ago, holds for {holds_ms:.0f} ms,"
            f" last synced {unsynced_ms:.0f} ms ago",
        )

    def check_waits(self, group: ConsumerGroup, now_ms: float) -> None:
        """I26: checks that nothing waits for a dead member longer than its session timeout or its rebalance timeout."""
        for member_id in group.members:
            member = self._know(group.members[member_id])
            silent_ms = self._sessions.certain_silence_ms(member_id, now_ms)
            if silent_ms > member.session_timeout_ms + SLACK_MS:
                raise Violation(26, f"{member_id} has been silent for {silent_ms:.0f} ms")
            holds_since_ms = self._holds_since_ms.get(member_id, now_ms)
            holds_ms = now_ms - max(holds_since_ms, self._sessions.forgiven_ms)
            if holds_ms > member.rebalance_timeout_ms + SLACK_MS:
                raise Violation(26, f"{member_id} has not let go for {holds_ms:.0f} ms")
