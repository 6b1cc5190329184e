"""A driver for a group shard without a runtime: a list as the log, a clock that tests move, and answers by ticket.

The driver applies results according to the contract, so that tests of the pure core see only its decisions. The method
`check_what_stands` repeats decisions whose reusable answers are valid, and checks that the result is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from tests.unit.core.group.plain_assignor import PLAIN_ASSIGNORS

from klamm.core.coordinator.cluster_topics import NO_TOPICS, ClusterTopics
from klamm.core.coordinator.shard_contract import (
    BackgroundTask,
    ClientContext,
    CoordinatorRecord,
    Result,
    ReusableAnswer,
    Ticket,
    TimerKey,
)
from klamm.core.group.assignors.assignor import Assignor
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_config import GroupConfig
from klamm.core.group.group_kind import GroupKind
from klamm.core.group.group_kinds import GROUP_KINDS
from klamm.core.group.incremental_work import INCREMENTAL_WORK_TIMER
from klamm.core.group.shard import GroupShard
from klamm.protocol.consumer_protocol import encode_subscription
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import ZERO_UUID, Message
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse
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
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponseGroup
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["GROUP", "ShardDriver", "subscription"]

GROUP = "orders"
START = Millis(1_700_000_000_000)
STANDING_KEPT = 8
"""The number of latest decisions with a reusable answer that are kept."""
NO_PRODUCER = (ProducerId(-1), ProducerEpoch(-1))

M = TypeVar("M", bound=Message)


def subscription(*topics: str) -> bytes:
    """Returns the metadata of a consumer that subscribes to these topics."""
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 0)


DEFAULT_PROTOCOLS = (("range", subscription("events")),)


class Written(NamedTuple):
    """A record in the log, with its producer id."""

    producer_id: ProducerId
    record: CoordinatorRecord


class Stood(NamedTuple):
    """A decided request with a reusable answer."""

    decide: Callable[[Ticket, Millis], Result]
    reusable_answer: ReusableAnswer
    response: Message
    timers: list[tuple[TimerKey, int | None]]


class ShardDriver:
    """One shard, its log, its timers and its clients."""

    assignors: ClassVar[Mapping[str, Assignor]] = PLAIN_ASSIGNORS
    kinds: ClassVar[Sequence[GroupKind]] = GROUP_KINDS

    def __init__(
        self,
        config: GroupCoordinatorConfig | None = None,
        *,
        log: Sequence[Written] = (),
        now: Millis = START,
        ids: Iterator[int] | None = None,
        topics: ClusterTopics = NO_TOPICS,
        settings: GroupConfig | None = None,
    ) -> None:
        self.config = config or GroupCoordinatorConfig()
        self.settings = settings or GroupConfig()
        self.topics = topics
        self.now = now
        self._ids = count(1) if ids is None else ids
        self._tickets = count(1)
        self.shard = GroupShard(
            self.config,
            lambda prefix: f"{prefix}-{next(self._ids)}",
            new_uuid=lambda: f"uuid-{next(self._ids)}",
            group_config_of=lambda group_id: self.settings,
            assignors=self.assignors,
            kinds=self.kinds,
        )
        self.log: list[Written] = []
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[Ticket, Message | ErrorCode] = {}
        self.parked: set[Ticket] = set()
        self.events: list[object] = []
        self.tasks: list[BackgroundTask] = []
        self.append_error: ErrorCode | None = None
        self.hold_commits = False
        self._held: list[tuple[Result, Ticket | None]] = []
        self._stood: deque[Stood] = deque(maxlen=STANDING_KEPT)
        self.repeated = 0
        """The number of decisions that were repeated for a reusable answer."""
        for written in log:
            self._write(written)
        for result in self.shard.on_loaded(topics, self.now):
            self.apply(result)

    # Tasks of the runtime

    def apply(self, result: Result, ticket: Ticket | None = None) -> None:
        for key, delay_ms in result.timers:
            if delay_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = self.now + delay_ms
        if result.records and self.append_error is not None:
            self.fail(result, ticket, self.append_error)
            return
        for record in result.records:
            self._write(Written(ProducerId(-1), record))
        if result.on_append is not None:
            result.on_append()
        self.tasks += result.tasks
        if self.hold_commits and (result.records or self._held):
            self._held.append((result, ticket))
        else:
            self._commit(result)

    def do_chores(self) -> None:
        """Runs the incremental work of the shard until none is left."""
        while INCREMENTAL_WORK_TIMER in self.timers:
            self.step_chores()

    def step_chores(self) -> None:
        """Runs one step of the incremental work."""
        del self.timers[INCREMENTAL_WORK_TIMER]
        self.apply(self.shard.handle_timer(INCREMENTAL_WORK_TIMER, self.now))

    def _write(self, written: Written) -> None:
        self.shard.replay(Offset(len(self.log)), written.producer_id, ProducerEpoch(-1), written.record)
        self.log.append(written)

    def _commit(self, result: Result) -> None:
        self._release(result.replies)
        self.publish(result.events)
        if result.on_commit is not None:
            self.apply(result.on_commit(self.now))

    def publish(self, events: Sequence[object]) -> None:
        """Collects the events of one decision."""
        self.events += events

    def _release(self, replies: Sequence[tuple[Ticket, Message | ErrorCode]]) -> None:
        for ticket, response in replies:
            if ticket in self.parked:
                self.parked.discard(ticket)
                self.answers[ticket] = response

    def fail(self, result: Result, ticket: Ticket | None, code: ErrorCode, *, is_written: bool = False) -> None:
        self._release([(other, response) for other, response in result.replies if other != ticket])
        if not result.records or (is_written and result.on_failure is None):
            self.publish(result.events)
        if result.on_failure is not None:
            self.apply(result.on_failure(code, self.now))
        if ticket is not None:
            self._release([(ticket, code)])

    def commit_held(self) -> None:
        """Commits all held results, as if the high watermark passed them."""
        self.hold_commits = False
        held, self._held = self._held, []
        for result, _ in held:
            self._commit(result)

    def fail_held(self, code: ErrorCode) -> None:
        """Fails all held results, as if the wait for the high watermark ended with an error."""
        self.hold_commits = False
        held, self._held = self._held, []
        for result, ticket in held:
            self.fail(result, ticket, code, is_written=True)

    def run_tasks(self) -> None:
        """Runs all background tasks and applies their outcomes, until none is left."""
        while self.tasks:
            task = self.tasks.pop(0)
            try:
                outcome = task.run()
            except Exception as error:
                outcome = error
            self.apply(self.shard.handle_outcome(task, outcome, self.now))

    def advance(self, milliseconds: int) -> None:
        """Moves the clock, and fires the timers that become due, in order."""
        end = Millis(self.now + milliseconds)
        while self.timers:
            key, deadline = min(self.timers.items(), key=lambda item: item[1])
            if deadline > end:
                break
            self.now = Millis(max(self.now, deadline))
            del self.timers[key]
            self.apply(self.shard.handle_timer(key, self.now))
        self.now = end

    def reload(self) -> ShardDriver:
        """Returns a driver with a new shard that is loaded from the log."""
        return ShardDriver(
            self.config, log=self.log, now=self.now, ids=self._ids, topics=self.topics, settings=self.settings
        )

    # Requests of clients

    def ask(
        self,
        handle: Callable[[GroupShard, M, ClientContext, Ticket, Millis], Result],
        request: M,
        version: int,
        client_id: str = "client",
    ) -> Ticket:
        ticket = Ticket(next(self._tickets))
        self.parked.add(ticket)
        context = ClientContext(client_id, "/10.0.0.1", version)
        try:
            result = handle(self.shard, request, context, ticket, self.now)
        except KafkaError as error:
            self._release([(ticket, error.code)])
            return ticket
        if result.reusable_answer is not None:
            assert result.reusable_answer.holds(self.now), "a decision does not stand on what it has just been made on"
            self._stood.append(
                Stood(
                    partial(handle, self.shard, request, context),
                    result.reusable_answer,
                    result.replies[0][1],
                    result.timers,
                )
            )
        self.apply(result, ticket)
        return ticket

    def check_what_stands(self) -> None:
        """Repeats each decision with a valid reusable answer, and checks that answer, timers and effects are equal."""
        for stood in self._stood:
            if not stood.reusable_answer.holds(self.now):
                continue
            ticket = Ticket(-1)
            try:
                again = stood.decide(ticket, self.now)
            except KafkaError as error:
                raise AssertionError(f"refused with {error.code.name} although it stands") from error
            self.repeated += 1
            assert again.replies == [(ticket, stood.response)]
            assert again.timers == stood.timers
            assert len(again.timers) == 1
            assert again.timers[0][0] in self.timers, "it stands without the timer that it is to move"
            assert [again.records, again.events, again.tasks] == [[], [], []]
            callbacks = (again.on_append, again.on_commit, again.on_failure, again.transaction)
            assert callbacks == (None, None, None, None)

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = DEFAULT_PROTOCOLS,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        version: int = 9,
        client_id: str = "client",
    ) -> Ticket:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        return self.ask(GroupShard.handle_join_group, request, version, client_id)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Ticket:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ],
        )
        return self.ask(GroupShard.handle_sync_group, request, 5)

    def heartbeat(self, member_id: str, generation: int, *, instance: str | None = None) -> ErrorCode | None:
        """Sends Heartbeat; returns the error code, or None if the answer is parked."""
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        answer = self.answers.get(self.ask(GroupShard.handle_heartbeat, request, 4))
        if answer is None or isinstance(answer, ErrorCode):
            return answer
        return ErrorCode(cast(HeartbeatResponse, answer).error_code)

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode] | ErrorCode | None:
        """Sends LeaveGroup; returns the members' error codes, that of the request, or None if the answer is parked."""
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members],
        )
        answer = self.answers.get(self.ask(GroupShard.handle_leave_group, request, 5))
        if answer is None or isinstance(answer, ErrorCode):
            return answer
        return [ErrorCode(member.error_code) for member in cast(LeaveGroupResponse, answer).members]

    def commit(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        group_id: str = GROUP,
        topic: str = "events",
        topic_id: bytes = ZERO_UUID,
        partition: int = 0,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        version: int = 9,
    ) -> ErrorCode | None:
        """Sends OffsetCommit; returns the error code, or None if the answer is parked."""
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        answer = self.answers.get(self.ask(GroupShard.handle_offset_commit, request, version))
        if answer is None or isinstance(answer, ErrorCode):
            return answer
        return ErrorCode(cast(OffsetCommitResponse, answer).topics[0].partitions[0].error_code)

    def fetch(
        self,
        *partitions: tuple[str, int],
        group_id: str = GROUP,
        topic_id: bytes = ZERO_UUID,
        all_topics: bool = False,
        require_stable: bool = False,
    ) -> dict[tuple[str, int], int | ErrorCode]:
        """Sends OffsetFetch; returns for each partition the offset, -1 if there is none, or the error code."""
        topics = [
            OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])
            for topic, partition in partitions
        ]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None if all_topics else topics)],
            require_stable=require_stable,
        )
        answer = cast(OffsetFetchResponseGroup, self.answers[self.ask(GroupShard.handle_offset_fetch, request, 10)])
        return {
            (topic.name, partition.partition_index): ErrorCode(partition.error_code)
            if partition.error_code
            else partition.committed_offset
            for topic in answer.topics
            for partition in topic.partitions
        }

    # State for assertions

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.shard.classic_groups.find(group_id)
        assert group is not None
        return group

    def state(self, group_id: str = GROUP) -> GroupState:
        return self.group(group_id).state

    def joined(self, ticket: Ticket) -> JoinGroupResponse:
        """Returns the answer to a JoinGroup request; fails if there is none."""
        answer = self.answers[ticket]
        assert isinstance(answer, JoinGroupResponse), answer
        return answer

    def join_error(self, ticket: Ticket) -> ErrorCode:
        return ErrorCode(self.joined(ticket).error_code)

    def synced(self, ticket: Ticket) -> SyncGroupResponse:
        """Returns the answer to a SyncGroup request; fails if there is none."""
        answer = self.answers[ticket]
        assert isinstance(answer, SyncGroupResponse), answer
        return answer

    def sync_error(self, ticket: Ticket) -> ErrorCode:
        return ErrorCode(self.synced(ticket).error_code)

    def is_parked(self, ticket: Ticket) -> bool:
        return ticket in self.parked

    # Helpers that set up a state

    def member_id(self, **join: Any) -> str:
        """Sends the first JoinGroup request of a dynamic member, and returns its member id."""
        response = self.joined(self.join(**join))
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def stable_group(self, size: int = 2, **join: Any) -> list[str]:
        """Creates a stable group of dynamic members at generation 1; returns their ids, the leader first."""
        ids = [self.member_id(**join) for _ in range(size)]
        tickets = [self.join(member_id, **join) for member_id in ids]
        self.advance(self.config.initial_rebalance_delay_ms * 2)
        for ticket in tickets:
            assert self.joined(ticket).error_code == ErrorCode.NONE
        syncs = [self.sync(member_id, 1, self.shares(ids) if member_id == ids[0] else None) for member_id in ids]
        assert all(self.sync_error(ticket) is ErrorCode.NONE for ticket in syncs)
        assert self.state() is GroupState.STABLE
        return ids

    def shares(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Returns an assignment for each member, which is the member id."""
        return {member_id: member_id.encode() for member_id in ids}


def small_sessions(**changes: Any) -> GroupCoordinatorConfig:
    """Returns a configuration with some changes to Kafka's defaults."""
    return replace(GroupCoordinatorConfig(), **changes)
