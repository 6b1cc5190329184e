"""Simulated eager consumers of the classic protocol, in groups of either type.

Such a consumer gives up its partitions and joins when it is told to rejoin. A leader assigns the partitions. An unknown
member starts over with an empty member id, and a fenced member stops.
"""

from __future__ import annotations

from enum import Enum

from tests.unit.core.group.consumer.consumer_driver import EVENTS, ConsumerDriver
from tests.unit.core.group.painted_topics import topic_id

from klamm.core.coordinator.shard_contract import Ticket
from klamm.protocol.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.sync_group_response import SyncGroupResponse

__all__ = ["SESSION_MS", "ClassicConsumer", "ClassicState"]

SESSION_MS = 45_000
REBALANCE_MS = 30_000
METADATA = encode_subscription(ConsumerProtocolSubscription(topics=[EVENTS]))


class ClassicState(Enum):
    """The state of a consumer, which decides what the consumer does next."""

    OUT = "has to join"
    JOINING = "waits for the generation"
    JOINED = "has to sync"
    SYNCING = "waits for its assignment"
    IN = "has what it was assigned"
    CRASHED = "does nothing"


class ClassicConsumer:
    """One consumer of the classic protocol that reads one topic."""

    def __init__(self, name: str, *, instance: str | None = None) -> None:
        self.name = name
        self.instance = instance
        self.state = ClassicState.OUT
        self.member_id = ""
        self.epoch = -1
        """The generation of the member."""
        self.member_ids: list[str] = []
        self.has: set[tuple[bytes, int]] = set()
        self.ticket: Ticket | None = None
        self.former: list[tuple[str, int]] = []

    def __repr__(self) -> str:
        return f"{self.name}({self.state.name}, {self.member_id!r}, {self.epoch}, {sorted(self.has)})"

    def go_on(self, driver: ConsumerDriver) -> None:
        """Does the next step of a consumer in its state."""
        self.listen(driver)
        if self.state is ClassicState.OUT:
            self._join(driver)
        elif self.state is ClassicState.JOINED:
            self._sync(driver)
        elif self.state is ClassicState.IN:
            code = driver.heartbeat(self.member_id, self.epoch, instance=self.instance)
            if code is not None and code is not ErrorCode.NONE:
                self._react(code)
        self.listen(driver)

    def leave(self, driver: ConsumerDriver) -> None:
        """Stops the consumer; a dynamic member sends LeaveGroup first."""
        if self.instance is None and self.member_id:
            driver.leave((self.member_id, None))
        self.crash()

    def crash(self) -> None:
        """Stops the consumer without a request."""
        self._remember()
        self.state = ClassicState.CRASHED
        self.has = set()
        self.ticket = None

    def restart(self) -> None:
        """Starts the consumer again; only the instance id is kept."""
        self.crash()
        self.state = ClassicState.OUT
        self.member_id, self.epoch = "", -1

    def lose_connection(self) -> None:
        """Drops the pending request, so that the consumer joins again."""
        if self.ticket is not None:
            self.ticket = None
            self.state = ClassicState.OUT

    def listen(self, driver: ConsumerDriver) -> None:
        """Handles the answer to the pending request, if it has arrived."""
        if self.ticket is None or self.ticket in driver.parked:
            return
        answer = driver.answers[self.ticket]
        self.ticket = None
        if isinstance(answer, JoinGroupResponse):
            self._hear_join(answer)
        elif isinstance(answer, SyncGroupResponse):
            self._hear_sync(answer)
        else:
            assert isinstance(answer, ErrorCode)
            self._react(answer)

    def _join(self, driver: ConsumerDriver) -> None:
        self.has = set()
        self.state = ClassicState.JOINING
        self.ticket = driver.join(
            self.member_id,
            instance=self.instance,
            protocols=[("range", METADATA)],
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            client_id=self.name,
        )

    def _sync(self, driver: ConsumerDriver) -> None:
        facts = driver.topics.by_name(EVENTS)
        assert facts is not None
        shares: dict[str, list[int]] = {member_id: [] for member_id in self.member_ids}
        for index in range(facts.partition_count if shares else 0):
            shares[self.member_ids[index % len(shares)]].append(index)
        assignments = {
            member_id: encode_assignment(
                ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic=EVENTS, partitions=partitions)])
            )
            for member_id, partitions in shares.items()
        }
        self.state = ClassicState.SYNCING
        self.ticket = driver.sync(self.member_id, self.epoch, assignments, instance=self.instance)

    def _hear_join(self, answer: JoinGroupResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._remember()
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self.member_ids = [] if answer.skip_assignment else [member.member_id for member in answer.members]
            self.state = ClassicState.JOINED
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.state = ClassicState.OUT
        else:
            self._react(code)

    def _hear_sync(self, answer: SyncGroupResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            self._react(code)
            return
        self.state = ClassicState.IN
        topics = decode_assignment(answer.assignment).assigned_partitions if answer.assignment else []
        self.has = {(topic_id(topic.topic), index) for topic in topics for index in topic.partitions}

    def _react(self, code: ErrorCode) -> None:
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._remember()
            self.member_id, self.epoch = "", -1
        self.has = set()
        self.state = ClassicState.OUT

    def _remember(self) -> None:
        if self.member_id:
            self.former.append((self.member_id, self.epoch))
