"""A consumer of the classic protocol, eager or cooperative: one process with its application and its heartbeats.

It follows the Java client's `ConsumerCoordinator`. Polls drive joining, reading and committing. Heartbeats are
independent of polls, and tell the member when to join again. An eager member gives up all its partitions before it
joins. A cooperative member continues to read, learns from the assignment what to give up, and then joins again
(KIP-429).
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from tests.simulation.members.assignment import Partition, Subscription, deal, share_cooperatively
from tests.simulation.members.member import REQUEST_TIMEOUT_MS, Member
from tests.simulation.plan import GroupKind, MemberPlan

from klamm.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment
from klamm.protocol.schema.consumer_protocol_assignment import TopicPartition as AssignedTopic
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.consumer_protocol_subscription import TopicPartition as OwnedTopic
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.schema.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["ClassicMember", "MemberState"]

RETRY_MS: Final = 100
_START_OVER: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_ID_NOT_FOUND}
)


class MemberState(Enum):
    """The state of a member."""

    DOWN = "is not running"
    OUT = "has to join"
    COMMITTING = "commits before it gives up what it owns"
    JOINING = "waits for the generation"
    ASSIGNING = "shares the partitions"
    SYNCING = "waits for its assignment"
    STABLE = "owns what it was assigned"
    FENCED = "was replaced by another, and has ended"


class ClassicMember(Member):
    """One member of a classic group."""

    def __init__(self, world: World, plan: MemberPlan, kind: GroupKind, name: str | None = None) -> None:
        self._is_cooperative = kind is GroupKind.COOPERATIVE
        self._protocol = "cooperative-sticky" if self._is_cooperative else "range"
        self.state = MemberState.DOWN
        super().__init__(world, plan, name)

    def _forget(self) -> None:
        super()._forget()
        self._must_join = False
        self._is_leader = False
        self._join_at_ms = 0.0
        self._seen_counts: dict[str, int] = {}
        self._insist_at_ms = inf
        self._is_beating = False
        self._awaited_commit: OffsetCommitRequest | None = None
        self._assigns_for_ms = 0
        self._assigned_in = -1
        """The generation in which the member got its partitions."""
        self._own_share: frozenset[Partition] | None = None
        """The partitions that the member, as the leader, has assigned to itself."""
        self._joins = 0
        """Number of generations that the member was told."""

    @property
    def is_fenced(self) -> bool:
        return self.state is MemberState.FENCED

    @property
    def is_at_rest(self) -> bool:
        return self.state is MemberState.STABLE and not self.reader.has_unknown_places()

    @property
    def _may_commit(self) -> bool:
        return self.state is MemberState.STABLE

    def _begin(self) -> None:
        self.state = MemberState.OUT

    def _end(self) -> None:
        self.state = MemberState.DOWN

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._must_join = True

    def be_slow_to_assign(self, milliseconds: int) -> None:
        """Delays the next assignment that the member makes as leader."""
        self._assigns_for_ms = milliseconds

    def recover(self) -> None:
        super().recover()
        self._assigns_for_ms = 0

    def _on_metadata(self, now_ms: float) -> None:
        """Starts a rebalance if the member is the leader and topics have grown, come or gone."""
        if self.state is MemberState.STABLE and self._is_leader:
            has_changed = self._seen_counts != self._partition_counts(self._seen_counts)
            if has_changed or now_ms >= self._insist_at_ms:
                self._must_join = True

    def _partition_counts(self, topics: dict[str, int]) -> dict[str, int]:
        """Returns the partition counts of these topics; 0 for topics that don't exist."""
        known = self._world.topics.image.topics
        return {name: len(known[name].partitions) if name in known else 0 for name in topics}

    # Joining

    def _on_poll(self, now_ms: float) -> None:
        if self.state is MemberState.STABLE and self._must_join:
            self._prepare_join()
        elif self.state is MemberState.OUT and now_ms >= self._join_at_ms:
            self._join()

    def _prepare_join(self) -> None:
        """Lets an eager member commit and give up all partitions before it joins."""
        if self._is_cooperative or not self.reader.owned:
            self._join()
            return
        self._awaited_commit = self._commit(only_new=True)
        if self._awaited_commit is None:
            self._give_up_and_join()
        else:
            self.state = MemberState.COMMITTING

    def _give_up_and_join(self) -> None:
        self.reader.drop(self.reader.owned)
        self.state = MemberState.OUT
        self._join()

    def _join(self) -> None:
        if not self._client.is_connected:
            self.state = MemberState.OUT
            return
        self._must_join = False
        self.state = MemberState.JOINING
        plan = self.plan
        request = JoinGroupRequest(
            group_id=plan.group_id,
            session_timeout_ms=plan.session_timeout_ms,
            rebalance_timeout_ms=plan.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=plan.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self._protocol, metadata=self._subscription())],
        )
        self._client.ask(request, 9, plan.rebalance_timeout_ms + REQUEST_TIMEOUT_MS, self._on_joined)

    def _subscription(self) -> bytes:
        owned: dict[str, list[int]] = {}
        for topic, index in sorted(self.reader.owned):
            owned.setdefault(topic, []).append(index)
        return encode_subscription(
            ConsumerProtocolSubscription(
                topics=list(self.topics),
                owned_partitions=[OwnedTopic(topic=topic, partitions=indexes) for topic, indexes in owned.items()],
                # Java's consumers report the last generation that they know. That generation may be lost in a failover,
                # because no member got an assignment in it. Its number would then outrank later assignments of other
                # members.
                generation_id=self._assigned_in,
                rack_id=self.plan.rack,
            )
        )

    def _on_joined(self, answer: Message | None) -> None:
        if self.state is not MemberState.JOINING:
            return
        if answer is None:
            self._try_again()
            return
        assert isinstance(answer, JoinGroupResponse)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._remember()
            self._joins += 1
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self._is_leader = answer.leader == answer.member_id
            shares = self._assign(answer) if self._is_leader else {}
            if not answer.leader:
                # In a consumer group the coordinator assigns. If the group becomes classic, its leader does not know
                # that it is the leader, and Apache Kafka's consumers then miss topics that grow. The simulated
                # consumers ask from time to time.
                self._is_leader = True
                self._seen_counts = self._partition_counts(dict.fromkeys(self.topics, 0))
                self._insist_at_ms = self._loop.now_ms + self.plan.rebalance_timeout_ms
            if answer.skip_assignment:
                # A static leader that came back leaves the assignment unchanged (KIP-814), and checks it later: topics
                # may have changed while it was away.
                shares, self._seen_counts = {}, dict.fromkeys(self._seen_counts, -1)
            if self._is_leader and self._assigns_for_ms:
                self.state = MemberState.ASSIGNING
                delay_ms, self._assigns_for_ms = self._assigns_for_ms, 0
                self._loop.call_later(delay_ms, partial(self._sync_late, self._joins, shares), self.process)
                return
            self._sync(shares)
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._join()
        else:
            self._react(code)

    def _sync_late(self, joins: int, shares: dict[str, list[Partition]]) -> None:
        # The generation is not enough: after a failover the same number may occur again.
        if self.state is MemberState.ASSIGNING and self._joins == joins:
            self._sync(shares)

    def _assign(self, answer: JoinGroupResponse) -> dict[str, list[Partition]]:
        subscriptions = {}
        for member in answer.members:
            decoded = decode_subscription(member.metadata)
            subscriptions[member.member_id] = Subscription(
                tuple(decoded.topics),
                frozenset((topic.topic, index) for topic in decoded.owned_partitions for index in topic.partitions),
                decoded.generation_id,
            )
        self._seen_counts = self._partition_counts(
            {topic: 0 for each in subscriptions.values() for topic in each.topics}
        )
        self._insist_at_ms = inf
        if not self._is_cooperative:
            return deal(subscriptions, self._seen_counts)
        shares = share_cooperatively(subscriptions, self._seen_counts)
        has_left_out = any(self._seen_counts.values()) and sum(map(len, shares.values())) < sum(
            self._seen_counts.values()
        )
        # A member that must revoke partitions joins again, and then all members get the rest. But a static member that
        # restarts in between has nothing to revoke, and does not join again. Apache Kafka's consumers then wait for the
        # next change; the simulated leader asks.
        if has_left_out:
            self._insist_at_ms = self._loop.now_ms + self.plan.rebalance_timeout_ms
        return shares

    def _sync(self, shares: dict[str, list[Partition]]) -> None:
        if not self._client.is_connected:
            self._try_again()
            return
        self.state = MemberState.SYNCING
        self._own_share = frozenset(shares[self.member_id]) if self.member_id in shares else None
        request = SyncGroupRequest(
            group_id=self.plan.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.plan.instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=_encode(partitions))
                for member_id, partitions in shares.items()
            ],
        )
        self._client.ask(request, 5, self.plan.rebalance_timeout_ms + REQUEST_TIMEOUT_MS, self._on_synced)

    def _on_synced(self, answer: Message | None) -> None:
        if self.state is not MemberState.SYNCING:
            return
        if answer is None:
            self._try_again()
            return
        assert isinstance(answer, SyncGroupResponse)
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            self._react(code)
            return
        self.state = MemberState.STABLE
        self._assigned_in = self.epoch
        assigned = _decode(answer.assignment)
        if self._own_share is not None and assigned != self._own_share:
            # The coordinator received a request that the member has given up on, and topics may have changed since.
            # Java's consumers do not check this.
            self._seen_counts = dict.fromkeys(self._seen_counts, -1)
        revoked = self.reader.owned - assigned
        if revoked and self._is_cooperative:
            self._commit(only_new=True)
            self._must_join = True  # Another member waits for the revoked partitions.
        self.reader.assign(assigned, is_told=True)
        self._ask_for_places()

    # Heartbeats

    def _beat(self) -> None:
        assert self.process is not None
        self._loop.call_later(self.plan.heartbeat_interval_ms, self._beat, self.process)
        self._client.give_up_on_late_answers()
        if self.state not in (MemberState.STABLE, MemberState.ASSIGNING):
            return
        if not self._client.is_connected:
            self._client.look_up()
            return
        if self._polls_too_late and self.state is MemberState.STABLE:
            self._leave()
            self._start_over(ErrorCode.UNKNOWN_MEMBER_ID)
            return
        if self._is_beating:
            return
        self._is_beating = True
        request = HeartbeatRequest(
            group_id=self.plan.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.plan.instance_id,
        )
        generation = self.epoch
        self._client.ask(request, 4, REQUEST_TIMEOUT_MS, lambda answer: self._on_heartbeat(generation, answer))

    def _on_heartbeat(self, generation: int, answer: Message | None) -> None:
        self._is_beating = False
        if answer is None or self.epoch != generation:
            return
        assert isinstance(answer, HeartbeatResponse)
        code = ErrorCode(answer.error_code)
        if self.state is MemberState.STABLE:
            self._react_while_stable(code)
        elif self.state is MemberState.ASSIGNING and code is not ErrorCode.NONE:
            self._react(code)

    def _leave(self) -> None:
        # A static member sends no LeaveGroup when it stops.
        if self.plan.instance_id is not None or not self._client.is_connected:
            return
        request = LeaveGroupRequest(
            group_id=self.plan.group_id,
            members=[MemberIdentity(member_id=self.member_id, group_instance_id=self.plan.instance_id)],
        )
        self._client.ask(request, 5, REQUEST_TIMEOUT_MS, lambda answer: None)

    # Offsets

    def _on_committed(self, request: OffsetCommitRequest, codes: set[ErrorCode] | None) -> None:
        for code in sorted(codes or ()):
            is_mine = request.generation_id_or_member_epoch == self.epoch
            if code is not ErrorCode.NONE and self.state is MemberState.STABLE and is_mine:
                self._react_while_stable(code)
        if self.state is MemberState.COMMITTING and request is self._awaited_commit:
            self._give_up_and_join()

    # Errors

    def _react_while_stable(self, code: ErrorCode) -> None:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._must_join = True
        elif code is not ErrorCode.NONE:
            self._react(code, goes_on=True)

    def _react(self, code: ErrorCode, *, goes_on: bool = False) -> None:
        """Handles an error. `goes_on` is set for errors that don't interrupt a stable member."""
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.reader.drop(self.reader.owned)
            self._remember()
            self.state = MemberState.FENCED
        elif code in _START_OVER:
            self._start_over(code)
        else:
            self._note_coordinator(code)
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._world.expect_retriable(self.state.value, code)
            if not goes_on:
                self._try_again()

    def _start_over(self, code: ErrorCode) -> None:
        """Gives up all partitions and joins again: other members may already have the partitions."""
        self.reader.drop(self.reader.owned)
        self._remember()
        self.epoch = self._assigned_in = -1
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
        self._try_again()

    def _try_again(self) -> None:
        self.state = MemberState.OUT
        self._join_at_ms = self._loop.now_ms + RETRY_MS


def _encode(partitions: list[Partition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    assigned = [AssignedTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned))


def _decode(assignment: bytes) -> frozenset[Partition]:
    if not assignment:
        return frozenset()
    decoded = decode_assignment(assignment)
    return frozenset((topic.topic, index) for topic in decoded.assigned_partitions for index in topic.partitions)
