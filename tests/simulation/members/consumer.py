"""A member of a consumer group (KIP-848): it sends heartbeats, and gets its assignment in the answers.

It follows the Java client's `ConsumerMembershipManager` and `ConsumerHeartbeatRequestManager`. The member applies an
assignment at its next poll: it first gives up revoked partitions, and then takes new ones. The next heartbeat reports
what it has now. A fenced member gives up all its partitions and joins again.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.members.member import REQUEST_TIMEOUT_MS, Member
from tests.simulation.network import Call, Connection
from tests.simulation.plan import MemberPlan

from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.schema.consumer_group_heartbeat_response import Assignment, ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.types import TopicId

if TYPE_CHECKING:
    from tests.simulation.topics import DataPartition
    from tests.simulation.world import World

__all__ = ["ConsumerMember"]

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2

_BEGIN_ANEW: Final = frozenset(
    {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
)
_TRY_LATER: Final = frozenset(
    {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION, *_BEGIN_ANEW}
)


class _State(Enum):
    DOWN = "is not running"
    JOINING = "joins"
    MEMBER = "is a member"
    STALE = "has left because its application did not poll"
    FENCED = "was replaced by another, and has ended"


class ConsumerMember(Member):
    """One member of a consumer group."""

    def __init__(self, world: World, plan: MemberPlan, name: str | None = None) -> None:
        self.state = _State.DOWN
        super().__init__(world, plan, name)

    def _forget(self) -> None:
        super()._forget()
        # Since version 1 of the request, members choose their own ids.
        self.member_id = (
            "" if self.plan.heartbeat_version == 0 else f"{self.name}-{self._loop.random.getrandbits(32):08x}"
        )
        self.epoch = JOINING_EPOCH
        self._told: frozenset[DataPartition] | None = None
        """The assignment that the member got but has not applied yet."""
        self._said: frozenset[DataPartition] | None = None
        """The partitions that the member reported last."""
        self._had: frozenset[DataPartition] = frozenset()
        """The partitions that the member had in the previous epoch."""
        self._must_say_all = True
        self._has_resubscribed = False
        self._is_waiting = False

    # What the rest of the world sees

    @property
    def is_fenced(self) -> bool:
        return self.state is _State.FENCED

    @property
    def is_at_rest(self) -> bool:
        return (
            self.state is _State.MEMBER
            and self._told is None
            and self._said == self.reader.owned_ids
            and not self._has_resubscribed
            and not self.reader.has_unknown_places()
        )

    def wanted_topics(self) -> frozenset[str]:
        if self.plan.regex is None:
            return super().wanted_topics()
        return frozenset(name for name in self._world.topics.image.topics if self.plan.matches(name))

    # Start and stop

    def _begin(self) -> None:
        self.state = _State.JOINING

    def _end(self) -> None:
        self.state = _State.DOWN

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        if self.plan.regex is None:
            self.topics = topics
            self._has_resubscribed = True

    def _leave(self) -> None:
        epoch = LEAVING_EPOCH if self.plan.instance_id is None else STATIC_LEAVING_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.plan.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.plan.instance_id,
        )
        self._client.ask(request, self.plan.heartbeat_version, REQUEST_TIMEOUT_MS, lambda answer: None)

    @property
    def _may_commit(self) -> bool:
        return self.state is _State.MEMBER

    # The application's thread

    def _on_poll(self, now_ms: float) -> None:
        if self.state is _State.STALE:
            self._begin_anew()
        if self._told is not None and self.state is _State.MEMBER:
            self._carry_out(self._told)
            self._say_soon()

    def _carry_out(self, told: frozenset[DataPartition]) -> None:
        self._told = None
        if self.reader.owned_ids - told:
            self._commit(only_new=True)
        self.reader.assign_ids(told)
        # The partitions may be the same as before, but the member must still report that it has applied the assignment.
        self._said = None
        self._ask_for_places()

    # Heartbeats

    def _beat(self) -> None:
        assert self.process is not None
        self._loop.call_later(self.plan.heartbeat_interval_ms, self._beat, self.process)
        self._client.give_up_on_late_answers()
        if self.state in (_State.STALE, _State.FENCED):
            return
        if not self._client.is_connected:
            self._client.look_up()
        elif self._polls_too_late and self.state is _State.MEMBER:
            self._leave()
            self.state = _State.STALE
        else:
            self._say()

    def _say_soon(self) -> None:
        """Sends a heartbeat soon, because the partitions have changed: another member may wait for them."""
        if self._client.is_connected:
            self._say()

    def _say(self) -> None:
        if self._is_waiting:
            return
        self._is_waiting = True
        plan, owned = self.plan, self.reader.owned_ids
        request = ConsumerGroupHeartbeatRequest(
            group_id=plan.group_id, member_id=self.member_id, member_epoch=self.epoch, instance_id=plan.instance_id
        )
        says_all = self._must_say_all or self.epoch == JOINING_EPOCH
        if says_all:
            request.rack_id = plan.rack
            request.rebalance_timeout_ms = plan.rebalance_timeout_ms
            request.server_assignor = plan.assignor
        if says_all or self._has_resubscribed:
            request.subscribed_topic_names = list(self.topics) if plan.regex is None else []
            if plan.heartbeat_version > 0:
                request.subscribed_topic_regex = plan.regex or ""
        if says_all or owned != self._said:
            request.topic_partitions = _by_topic(owned)
        # As in the Java client: a member that joins again while an answer is on its way reports everything in its next
        # request.
        self._must_say_all = False
        topics = self.topics

        def answered(answer: Message | None) -> None:
            self._is_waiting = False
            if answer is None:
                self._must_say_all = True
                return
            assert isinstance(answer, ConsumerGroupHeartbeatResponse)
            if ErrorCode(answer.error_code) is ErrorCode.NONE:
                self._on_told(answer, owned, topics)
            else:
                self._on_refused(ErrorCode(answer.error_code))

        self._client.ask(request, plan.heartbeat_version, REQUEST_TIMEOUT_MS, answered)

    def _on_told(
        self, answer: ConsumerGroupHeartbeatResponse, said: frozenset[DataPartition], topics: tuple[str, ...]
    ) -> None:
        if self.state not in (_State.JOINING, _State.MEMBER):
            return
        if self.state is _State.MEMBER and answer.member_epoch != self.epoch:
            self._remember()
            self._had = self.reader.owned_ids
        self.state = _State.MEMBER
        self.member_id, self.epoch = answer.member_id or "", answer.member_epoch
        self._said = said
        if topics == self.topics:
            self._has_resubscribed = False
        if answer.assignment is not None:
            self._told = _partitions(answer.assignment)

    def _on_refused(self, code: ErrorCode) -> None:
        self._must_say_all = True
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.reader.drop(self.reader.owned)
            self._remember()
            self.state = _State.FENCED
        elif code in _BEGIN_ANEW:
            if self.state is _State.MEMBER:
                self._begin_anew()
        elif code is not ErrorCode.UNRELEASED_INSTANCE_ID:
            # If the instance id is not free yet, its session must expire, or its member must leave.
            self._world.expect_retriable(f"ConsumerGroupHeartbeat of one that {self.state.value}", code)
            self._note_coordinator(code)

    def _begin_anew(self) -> None:
        """Gives up all partitions and joins again: other members may already have the partitions."""
        self.reader.drop(self.reader.owned)
        self._remember()
        self.epoch = JOINING_EPOCH
        self._told = self._said = None
        self._must_say_all = True
        self.state = _State.JOINING

    # Offsets

    def commit_late(self) -> bool:
        """Commits with the previous epoch, like a delayed request, and then with the current one; returns whether it
        can.
        """
        former = [epoch for member_id, epoch in self.former[-1:] if member_id == self.member_id]
        broker = self._world.cluster.coordinator_of(self.plan.group_id)
        if self.state is not _State.MEMBER or not former or broker is None or broker.process is None:
            return False
        request = self._make_commit(only_new=False)
        if request is None or self.process is None:
            return False
        request.generation_id_or_member_epoch = former[0]
        for topic in request.topics:
            topic_id = TopicId(topic.topic_id)
            topic.partitions = [each for each in topic.partitions if (topic_id, each.partition_index) in self._had]
            for partition in topic.partitions:
                partition.committed_offset = self._loop.between(0, partition.committed_offset)
        connection = Connection(self._world.network, self.name, self.process, broker)
        connection.send(Call(self.name, request, self.plan.commit_version, lambda answer: None))
        self._loop.call_later(self._loop.between(0, 10), partial(self._commit_again, self.epoch), self.process)
        return True

    def _commit_again(self, epoch: int) -> None:
        if self.state is _State.MEMBER and self.epoch == epoch:
            self._commit(only_new=False)

    def _fetch_identity(self) -> tuple[str | None, int]:
        return self.member_id, self.epoch

    def _on_fetch_refused(self, code: ErrorCode) -> None:
        if code not in _TRY_LATER:
            super()._on_fetch_refused(code)

    def _on_committed(self, request: OffsetCommitRequest, codes: set[ErrorCode] | None) -> None:
        for code in sorted((codes or set()) - _TRY_LATER):
            # The member learns from its heartbeats whether its epoch is current.
            self._world.expect_retriable("OffsetCommit", code)


def _by_topic(partitions: frozenset[DataPartition]) -> list[TopicPartitions]:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics.items()]


def _partitions(assignment: Assignment) -> frozenset[DataPartition]:
    return frozenset(
        (TopicId(topic.topic_id), index) for topic in assignment.topic_partitions for index in topic.partitions
    )
