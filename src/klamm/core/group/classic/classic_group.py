"""The volatile state of a classic group: its members, and which of them must still join or sync.

This file only keeps the state. `joins.py`, `syncs.py` and the other files here decide on requests and timers.
After Apache Kafka's `ClassicGroup`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Self

from klamm.core.coordinator.java_hash import java_hash
from klamm.core.coordinator.shard_contract import CoordinatorRecord, Ticket
from klamm.core.group.classic.embedded_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from klamm.core.group.classic.group_metadata import GroupMetadata, MemberMetadata, group_tombstone
from klamm.core.group.classic.group_state import TRANSITIONS, GroupEvent, GroupState
from klamm.core.group.classic.member import Member, Protocols
from klamm.core.group.crash_loops import CrashLoops
from klamm.core.group.events import GroupType
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Generation, Millis

__all__ = ["ClassicGroup"]


class ClassicGroup:
    """A classic group while its coordinator leads it.

    `previous_state` is the state before the last transition: a rebalance that began in Empty waits longer for members.
    """

    __slots__ = (
        "awaiting_join",
        "crash_loops",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "is_batching",
        "leader_id",
        "members",
        "new_member_added",
        "pending_join",
        "pending_sync",
        "previous_state",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "topics",
    )

    def __init__(self, group_id: str, state_timestamp_ms: Millis | None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = Generation(0)
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by group instance id."""
        self.pending_join: set[str] = set()
        """Member ids that were given to clients and have not joined yet (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.awaiting_join = 0
        """How many members have a parked JoinGroup."""
        self.protocol_counts: Counter[str] = Counter()
        """How many members support each protocol."""
        self.topics: frozenset[str] | None = None
        """The topics that the members read; None if unknown."""
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms: int | None = None
        """How much the delay of an initial rebalance may still be extended; else None."""
        self.is_batching = False
        """Whether a stable group waits for more joins and leaves before it rebalances; joins are parked."""
        self.crash_loops: CrashLoops | None = None
        """The deaths of members; None before the first one."""

    @classmethod
    def from_metadata(cls, group_id: str, metadata: GroupMetadata) -> Self:
        """Returns the group as the log has it: Stable if it has members, else Empty."""
        group = cls(group_id, metadata.state_timestamp_ms)
        group.generation = metadata.generation
        group.protocol_name = metadata.protocol_name
        for member in metadata.members:
            group.add(_loaded_member(group_id, metadata.protocol_name, member), metadata.protocol_type or "")
        group.protocol_type = metadata.protocol_type
        group.leader_id = metadata.leader_id
        if metadata.members:
            group.state = GroupState.STABLE
        group.topics = group.compute_topics()
        return group

    # State

    def move(self, event: GroupEvent, now: Millis) -> None:
        """Changes the state by the table. Raises KeyError for an event without a row, which is a bug of the caller."""
        target = TRANSITIONS[self.state, event]
        self.previous_state = self.state
        self.state = target
        self.state_timestamp_ms = now

    def is_in(self, *states: GroupState) -> bool:
        """Returns whether the group is in one of these states."""
        return self.state in states

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, whose metadata the broker can decode."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def group_type(self) -> GroupType:
        """Always the classic type."""
        return GroupType.CLASSIC

    @property
    def epoch(self) -> int:
        """The generation."""
        return self.generation

    @property
    def is_empty(self) -> bool:
        """Whether the group is in state Empty."""
        return self.state is GroupState.EMPTY

    @property
    def allows_offset_delete(self) -> bool:
        """Whether single offsets may be deleted: the group is Empty, or its members are consumers."""
        return self.state is GroupState.EMPTY or self.uses_consumer_protocol

    @property
    def may_expire(self) -> bool:
        """Whether offsets may expire; a group with members keeps them unless it is Stable and its topics are known."""
        if self.protocol_type is None or self.state is GroupState.EMPTY:
            return True
        return self.uses_consumer_protocol and self.topics is not None and self.state is GroupState.STABLE

    @property
    def expires_from_ms(self) -> Millis | None:
        """When the group became empty; None if it has members, or never had any."""
        if self.protocol_type is not None and self.state is GroupState.EMPTY:
            return self.state_timestamp_ms
        return None

    def tombstones(self) -> Iterable[CoordinatorRecord]:
        """Returns the record that removes the group from the log."""
        return (group_tombstone(self.group_id),)

    def start_generation(self, now: Millis) -> None:
        """Raises the generation with the present members; without any, the group becomes Empty."""
        self.generation = Generation(self.generation + 1)
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.topics = self.compute_topics()
        self.move(GroupEvent.MEMBERS_JOINED if self.members else GroupEvent.NO_MEMBER_JOINED, now)

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Adds a member. The first one sets the protocol type and leads."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.protocol_counts.update(member.protocol_names())
        if member.join_ticket is not None:
            self.awaiting_join += 1
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Removes a member or a pending member id.

        A removed leader is replaced by the member that has been in the group longest.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self.protocol_counts.subtract(member.protocol_names())
            if member.join_ticket is not None:
                self.awaiting_join -= 1
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        return member

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Updates a member that joins again with the data of its request."""
        self.protocol_counts.subtract(member.protocol_names())
        member.protocols = protocols
        self.protocol_counts.update(member.protocol_names())
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: Member, ticket: Ticket | None) -> Ticket | None:
        """Parks the member's JoinGroup, or none; returns the one that was parked before."""
        before = member.join_ticket
        self.awaiting_join += (ticket is not None) - (before is not None)
        member.join_ticket = ticket
        return before

    def rename_static_member(self, old_member_id: str, new_member_id: str, joined_at: Millis) -> Member:
        """Gives a static member another member id and keeps the rest; its parked requests must have been answered."""
        old = self.members.pop(old_member_id)
        assert old.group_instance_id is not None
        assert old.join_ticket is None
        assert old.sync_ticket is None
        renamed = Member(
            group_id=self.group_id,
            member_id=new_member_id,
            group_instance_id=old.group_instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocols=old.protocols,
            assignment=old.assignment,
            joined_at=joined_at,
        )
        renamed.kept_assignment = old.kept_assignment
        self.members[new_member_id] = renamed
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[old.group_instance_id] = new_member_id
        return renamed

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """Returns the member with this id.

        Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if its instance id has another member id now.
        """
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    @property
    def has_all_members_joined(self) -> bool:
        """Whether every member has a parked JoinGroup and no member id is pending."""
        return self.awaiting_join == len(self.members) and not self.pending_join

    def awaited(self) -> list[str]:
        """Returns the ids that the rebalance waits for: of members that have not joined, later of the leader."""
        if self.state is GroupState.PREPARING_REBALANCE:
            absent = [member.member_id for member in self.members.values() if member.join_ticket is None]
            return absent + sorted(self.pending_join)
        leader = self.members.get(self.leader_id or "")
        if self.state is GroupState.COMPLETING_REBALANCE and leader is not None and leader.sync_ticket is None:
            return [leader.member_id]
        return []

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' rebalance timeouts."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Makes a joined member the leader, the present leader if possible; returns False if no member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False

    # Protocols

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Returns whether a member with these protocols fits: same type, and one protocol that all members support."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts[name] == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Returns the protocol with the most votes among those that all members support.

        Ties are broken as in Kafka, where the first entry in the iteration order of a Java HashMap wins.
        """
        candidates = {name for name, count in self.protocol_counts.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], _hash_map_bucket(name)))

    def compute_topics(self) -> frozenset[str] | None:
        """Returns the topics that the members read; None if the members are not consumers, or if their metadata can't
        be decoded."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        return subscribed_topics(member.metadata(self.protocol_name) for member in self.members.values())

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether a member reads the topic; consumers whose topics are unknown may read any."""
        return self.uses_consumer_protocol if self.topics is None else topic in self.topics

    def metadata_with(self, assignments: dict[str, bytes]) -> GroupMetadata:
        """Returns the group's state for its record; members without an assignment get an empty one."""
        return GroupMetadata(
            generation=self.generation,
            protocol_type=self.protocol_type or None,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(self._member_metadata(assignments)),
        )

    def _member_metadata(self, assignments: dict[str, bytes]) -> Iterable[MemberMetadata]:
        for member in self.members.values():
            yield MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(self.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )


def _loaded_member(group_id: str, protocol_name: str | None, member: MemberMetadata) -> Member:
    return Member(
        group_id=group_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        protocols=((protocol_name or "", member.subscription),),
        assignment=member.assignment,
    )


def _hash_map_bucket(name: str) -> int:
    spread = java_hash(name) & 0xFFFFFFFF
    return (spread ^ (spread >> 16)) & 15
