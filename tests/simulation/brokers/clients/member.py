"""A member of the group: it reads its assigned partitions, and commits its positions.

The protocol decides how a process becomes a member: see `classic_member` and `consumer_member`. Some members die and
come back with a new member id. Some leave. Some pause for longer than their session timeout, and then continue as
before.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from tests.simulation.brokers.client_world import LATE_MS
from tests.simulation.brokers.clients.base import PASSING, Participant, error_code_of
from tests.simulation.brokers.clients.client import Coordinator, Leader
from tests.simulation.brokers.groups import GroupLedger
from tests.simulation.brokers.visibility import Visible
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.client.errors import ConnectionFailed
from klamm.client.fetch_exchange import batches_of, fetch_version, partition_wanted, read_answer, send_fetch
from klamm.client.fetch_session import WITHOUT_SESSION
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchTopic
from klamm.protocol.message import Message
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import ClientWorld

__all__ = ["GROUP", "Member"]

GROUP: Final = "members"
_KEY_TYPE: Final = 0

M = TypeVar("M", bound=Message)


class Member(Participant, ABC):
    """One process of the group, with all its restarts."""

    def __init__(self, world: ClientWorld, name: str, ledger: GroupLedger) -> None:
        super().__init__(world, name)
        self.ledger = ledger
        self.member_id = ""
        self.forget()

    def ceilings(self) -> dict[int, int]:
        return {8: 9, 9: 9}

    def forget(self) -> None:
        """Resets the state: the process is not a member any more."""
        self.generation = -1
        """The generation or the member epoch; -1 if the process is not a member."""
        self.life = 0
        """The life of the broker that sent the last answer, if lives must not be compared; else 0."""
        self.heard_ms: float | None = None
        """When the last answered request was sent, if the group's coordinator has handled it for certain, and as the
        last request of this member so far."""
        self._late_until_ms = 0.0
        """Until this time, a request that the member has given up may still arrive."""
        self.positions: dict[TopicPartition, int] = {}
        self.safe_until_ms = 0.0
        """No coordinator can have removed the member before this time."""
        self.ledger.gives_up(self.name)

    async def live(self) -> None:
        find = FindCoordinatorRequest(key_type=_KEY_TYPE, coordinator_keys=[GROUP])
        await self.until_answered(
            find, FindCoordinatorResponse, lambda answer: (one.error_code for one in answer.coordinators)
        )
        await self.client.run(self.client.refreshing(self.world.plan.topics))
        while not (self.world.is_ending and self.ledger.is_settled):
            if self.generation < 0:
                await self.join()
            else:
                await self._go_on()
            self.ledger.look_whether_settled(self.world.plan.members)
        await self.leave()
        self.is_finished = True

    async def _go_on(self) -> None:
        """Runs one round of a member."""
        draw = 1.0 if self._is_calm else self.random.random()
        if draw < 0.03:
            self.note("dies")
            self.client.disconnect()
            self.forget()
            await self._pause()
        elif draw < 0.06:
            await self.leave()
            self.forget()
            await self._pause()
        elif draw < 0.12:
            await self._pause()
            await self.commit()
        else:
            await self._read_some()
            if self.random.random() < 0.5:
                await self.commit()
        if self.generation >= 0:
            await self.beat()
        # At the end, `think` pauses for longer than the session timeout, so members use this shorter pause.
        await asyncio.sleep(self.random.random() * self.world.plan.think_ms / 1000)

    async def _pause(self) -> None:
        for _ in range(self.random.randint(1, 15)):
            if not self._is_calm:
                await self.world.think()

    @property
    def _is_calm(self) -> bool:
        """Whether the member must not die, leave or pause any more."""
        return self.world.is_calm or self.world.is_ending

    @abstractmethod
    async def join(self) -> None:
        """Makes one attempt to become a member."""

    @abstractmethod
    async def beat(self) -> None:
        """Sends a heartbeat, and applies the answer."""

    @abstractmethod
    async def leave(self) -> None:
        """Leaves the group."""

    # Requests

    async def ask(self, request: Message, answer: type[M]) -> M:
        """Repeats a request until the answer has no temporary error."""
        to, world = Coordinator(_KEY_TYPE, GROUP), self.world
        while True:
            asked_ms = math.inf
            try:
                connection = await self.client.connection(to)
                asked_ms, life = world.loop.now_ms, world.compared_life
                term = world.coordinator_term(GROUP, connection.address)
                found = await connection.ask(request, answer)
            except ConnectionFailed as error:
                if world.loop.now_ms - asked_ms >= world.plan.request_timeout_ms:
                    self._late_until_ms = world.loop.now_ms + LATE_MS
                self.client.forget(to)
                await self.rest(error)
                continue
            (code,) = error_code_of(found)
            if error_code(code) not in PASSING:
                if life != self.life:
                    self.life, self.safe_until_ms = life, 0.0
                is_certain = term is not None and term == world.coordinator_term(GROUP, connection.address)
                self.heard_ms = asked_ms if is_certain and asked_ms >= self._late_until_ms else None
                return found
            self.client.forget(to)
            await self.rest(error_code(code))

    # Offsets

    async def begin_reading(self, assigned: Iterable[TopicPartition]) -> None:
        """Fetches the committed offsets of newly assigned partitions, and sets the positions."""
        topics: dict[str, OffsetFetchRequestTopics] = {}
        for where in sorted(assigned):
            topic = topics.setdefault(where.topic, OffsetFetchRequestTopics(name=where.topic))
            topic.partition_indexes.append(where.partition)
        if not topics:
            return
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=list(topics.values()))])
        answer = await self.until_answered(
            request, OffsetFetchResponse, _codes_of_fetch, to=Coordinator(_KEY_TYPE, GROUP)
        )
        for found in answer.groups[0].topics:
            for partition in found.partitions:
                where = TopicPartition(found.name, PartitionIndex(partition.partition_index))
                self.ledger.found(self.name, where, partition.committed_offset)
                self.positions[where] = max(partition.committed_offset, 0)

    async def commit(self) -> None:
        """Commits all positions. It ignores errors, because the member also learns of them from its heartbeats."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        positions = dict(self.positions)
        if not positions:
            return
        for where, position in positions.items():
            self.ledger.commits(where, position)
            topic = topics.setdefault(where.topic, OffsetCommitRequestTopic(name=where.topic))
            topic.partitions.append(
                OffsetCommitRequestPartition(partition_index=where.partition, committed_offset=position)
            )
        generation, newest = self.generation, self.ledger.generation
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=generation,
            member_id=self.member_id,
            topics=list(topics.values()),
        )
        try:
            connection = await self.client.connection(Coordinator(_KEY_TYPE, GROUP))
            asked_ms, life = self.world.loop.now_ms, self.world.life
            answer = await connection.ask(request, OffsetCommitResponse)
        except ConnectionFailed as error:
            self.client.forget(Coordinator(_KEY_TYPE, GROUP))
            await self.rest(error)
            return
        codes = set()
        for found in answer.topics:
            for partition in found.partitions:
                where = TopicPartition(found.name, PartitionIndex(partition.partition_index))
                codes.add(error_code(partition.error_code))
                if partition.error_code == ErrorCode.NONE:
                    self.ledger.accepted(self.name, where, generation, newest, asked_ms)
                    self.ledger.committed(where, positions[where], life)
        self.note("has committed in %d: %s", generation, ", ".join(sorted(code.name for code in codes)))

    # Records

    async def _read_some(self) -> None:
        """Fetches once from one assigned partition."""
        if not self.positions:
            return
        where = self.random.choice(sorted(self.positions))
        position = Offset(self.positions[where])
        try:
            partition, may_lack = await self._fetch(where, position)
        except ConnectionFailed as error:
            self.client.forget(Leader(where))
            await self.rest(error)
            return
        code = error_code(partition.error_code)
        is_out_of_range = code is ErrorCode.OFFSET_OUT_OF_RANGE
        if code in PASSING or (is_out_of_range and may_lack):
            self.client.forget(Leader(where))
            await self.client.run(self.client.refreshing(self.world.plan.topics))
        elif is_out_of_range:
            deleted = self.world.model.partitions[where].deleted
            if position >= deleted and not self.world.plan.may_lose:
                raise Violation(17, f"{self.name} has gone on from offset {position} of {where}, which is not there")
            self.positions[where] = deleted if position < deleted else 0
        elif code is not ErrorCode.NONE:
            raise Violation(0, f"a fetch of {self.name} was answered {code.name}")
        else:
            self.positions[where] = self._take(where, partition, position)

    async def _fetch(self, where: TopicPartition, position: Offset) -> tuple[FetchPartitionResponse, bool]:
        """Returns the answer, and whether its sender may lack committed records."""
        topic_id = self.world.topic_ids[where.topic]
        connection = await self.client.connection(Leader(where))
        wanted = partition_wanted(self.client, where, position)
        may_lack = self.world.may_lack_committed(where, wanted.current_leader_epoch, connection.address)
        pending = send_fetch(
            connection,
            fetch_version(connection, [topic_id]),
            self.client.config,
            [FetchTopic(where.topic, topic_id, [wanted])],
            WITHOUT_SESSION,
            max_bytes=self.client.config.fetch_max_bytes,
            max_wait_ms=0,
        )
        answer = read_answer(connection, pending, await connection.receive(pending))
        return answer.topics[0].partitions[0], may_lack

    def _take(self, where: TopicPartition, partition: FetchPartitionResponse, position: Offset) -> int:
        self.world.told_high_watermark(where, partition.high_watermark)
        fetched = batches_of(partition, position)
        if fetched is None:
            return position
        shown = Visible(())
        for at, header in iterate_batches(fetched.records):
            if header.base_offset > position or header.next_offset <= position:
                raise Violation(1, f"{self.name} asked {where} for offset {position}, and got {header.base_offset}")
            if header.next_offset > partition.high_watermark:
                raise Violation(5, f"{self.name} got offset {header.last_offset} of {where} beyond the high watermark")
            for offset, value, _ in shown.records(fetched.records, at, header):
                self.world.saw(where, offset, value, header.partition_leader_epoch)
            position = header.next_offset
        return position


def _codes_of_fetch(answer: OffsetFetchResponse) -> Iterator[int]:
    return (group.error_code for group in answer.groups)
