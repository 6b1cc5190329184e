"""A member of a consumer group (KIP-848): it sends heartbeats, and the coordinator assigns the partitions."""

from __future__ import annotations

import uuid
from typing import Final

from tests.simulation.brokers.clients.member import GROUP, Member
from tests.simulation.brokers.plan import MEMBER_TIMEOUT_MS
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.schema.consumer_group_heartbeat_response import Assignment, ConsumerGroupHeartbeatResponse
from klamm.protocol.types import PartitionIndex, TopicPartition

__all__ = ["ConsumerMember"]

_JOINING: Final = 0
_LEAVING: Final = -1


class ConsumerMember(Member):
    """A member that chooses its own member id, and a new one after each crash or leave."""

    def forget(self) -> None:
        super().forget()
        self.member_id = ""

    async def join(self) -> None:
        self.member_id = self.member_id or str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        self._lose_all()
        await self._say(_JOINING)

    async def beat(self) -> None:
        await self._say(self.generation)

    async def leave(self) -> None:
        self.note("leaves")
        self.ledger.gives_up(self.name)
        await self.ask(self._request(_LEAVING), ConsumerGroupHeartbeatResponse)

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=epoch)

    async def _say(self, epoch: int) -> None:
        request = self._request(epoch)
        request.rebalance_timeout_ms = MEMBER_TIMEOUT_MS
        request.subscribed_topic_names = sorted(self.world.plan.topics)
        request.topic_partitions = self._owned()
        self.ledger.says(self.name, self.positions.keys())
        asked_ms = self.world.loop.now_ms
        answer = await self.ask(request, ConsumerGroupHeartbeatResponse)
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            if self.heard_ms is not None:
                # An earlier attempt may have begun the time within which the member must revoke partitions.
                self.safe_until_ms = asked_ms + MEMBER_TIMEOUT_MS
            self.generation = answer.member_epoch
            if answer.assignment is not None:
                await self._carry_out(self._decode(answer.assignment))
            return
        self.note("is told %s", code.name)
        if code is ErrorCode.UNKNOWN_MEMBER_ID and self.world.loop.now_ms < self.safe_until_ms:
            raise Violation(15, f"{self.name} was taken out, and had until {self.safe_until_ms:.0f} ms to be heard")
        is_lost = code is ErrorCode.GROUP_ID_NOT_FOUND and self.world.plan.may_lose
        if not is_lost and code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            raise Violation(0, f"{self.name} was answered {code.name}")
        self._lose_all()
        self.generation = -1

    async def _carry_out(self, assigned: frozenset[TopicPartition]) -> None:
        self.note("has %s in epoch %d", sorted(map(str, assigned)), self.generation)
        self.ledger.told(self.name, self.life, self.generation, assigned, self.safe_until_ms)
        revoked = self.positions.keys() - assigned
        if revoked:
            await self.world.revoking()
            await self.commit()
        for where in revoked:
            del self.positions[where]
        await self.begin_reading(assigned - self.positions.keys())

    def _lose_all(self) -> None:
        self.positions.clear()
        self.ledger.gives_up(self.name)

    def _owned(self) -> list[TopicPartitions]:
        topics: dict[str, TopicPartitions] = {}
        for where in sorted(self.positions):
            topic_id = self.world.topic_ids[where.topic]
            topics.setdefault(where.topic, TopicPartitions(topic_id=topic_id)).partitions.append(where.partition)
        return list(topics.values())

    def _decode(self, assignment: Assignment) -> frozenset[TopicPartition]:
        names: dict[bytes, str] = {topic_id: name for name, topic_id in self.world.topic_ids.items()}
        return frozenset(
            TopicPartition(names[topic.topic_id], PartitionIndex(index))
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
