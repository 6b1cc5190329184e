"""A member of a classic group. When it is the leader, it assigns the partitions at random."""

from __future__ import annotations

from typing import Final

from tests.simulation.brokers.clients.member import GROUP, Member
from tests.simulation.brokers.groups import Shares
from tests.simulation.brokers.plan import MEMBER_TIMEOUT_MS
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.protocol.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment
from klamm.protocol.schema.consumer_protocol_assignment import TopicPartition as AssignedTopic
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.protocol.types import PartitionIndex, TopicPartition

__all__ = ["ClassicMember"]

_PROTOCOL: Final = "range"


class ClassicMember(Member):
    """A member that gives up all its partitions before it joins (eager)."""

    def forget(self) -> None:
        super().forget()
        self.member_id = ""

    async def join(self) -> None:
        self.positions.clear()
        self.ledger.gives_up(self.name)
        subscription = ConsumerProtocolSubscription(topics=sorted(self.world.plan.topics))
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=MEMBER_TIMEOUT_MS,
            rebalance_timeout_ms=MEMBER_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=encode_subscription(subscription))],
        )
        asked_ms = self.world.loop.now_ms
        answer = await self.ask(request, JoinGroupResponse)
        code = error_code(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if code is not ErrorCode.NONE:
            self._refused(code)
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.note("is %s in generation %d", answer.member_id, answer.generation_id)
        shares = self._share(answer) if answer.leader == answer.member_id else {}
        self.ledger.shares(answer.generation_id, shares)
        await self._sync(shares, asked_ms if self.heard_ms is not None else None)

    def _share(self, answer: JoinGroupResponse) -> Shares:
        member_ids = sorted(member.member_id for member in answer.members)
        partitions = list(self.world.partitions)
        self.random.shuffle(partitions)
        return {
            member_id: frozenset(partitions[place :: len(member_ids)]) for place, member_id in enumerate(member_ids)
        }

    async def _sync(self, shares: Shares, joined_ms: float | None) -> None:
        """Asks for the assignment. The member's session began at `joined_ms` or later; None if that is not certain.

        Only the answer shows that the generation was written, so that the next coordinator has the member, too.
        """
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=_encode(partitions))
                for member_id, partitions in shares.items()
            ],
        )
        answer = await self.ask(request, SyncGroupResponse)
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            self._refused(code)
            return
        assigned = _decode(answer.assignment)
        self.note("has %s", sorted(map(str, assigned)))
        self.safe_until_ms = 0.0
        if joined_ms is not None and self.heard_ms is not None:
            self.safe_until_ms = joined_ms + MEMBER_TIMEOUT_MS
        self.ledger.assigned(
            self.name, self.member_id, self.life, self.generation, assigned, safe_until_ms=self.safe_until_ms
        )
        await self.begin_reading(assigned)

    async def beat(self) -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        answer = await self.ask(request, HeartbeatResponse)
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            if self.heard_ms is not None:
                self.safe_until_ms = self.heard_ms + MEMBER_TIMEOUT_MS
                self.ledger.is_safe_until(self.name, self.safe_until_ms)
            return
        is_out = code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        if is_out and self.world.loop.now_ms < self.safe_until_ms:
            raise Violation(15, f"{self.name} was taken out, and had until {self.safe_until_ms:.0f} ms to be heard")
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            await self.commit()
        self._refused(code)

    async def leave(self) -> None:
        self.note("leaves")
        self.ledger.gives_up(self.name)
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])
        await self.ask(request, LeaveGroupResponse)

    def _refused(self, code: ErrorCode) -> None:
        self.note("is told %s", code.name)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        elif code not in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            raise Violation(0, f"{self.name} was answered {code.name}")
        self.generation = -1


def _encode(partitions: frozenset[TopicPartition]) -> bytes:
    topics: dict[str, AssignedTopic] = {}
    for where in sorted(partitions):
        topics.setdefault(where.topic, AssignedTopic(topic=where.topic)).partitions.append(where.partition)
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=list(topics.values())))


def _decode(assignment: bytes) -> frozenset[TopicPartition]:
    if not assignment:
        return frozenset()
    decoded = decode_assignment(assignment)
    return frozenset(
        TopicPartition(topic.topic, PartitionIndex(index))
        for topic in decoded.assigned_partitions
        for index in topic.partitions
    )
