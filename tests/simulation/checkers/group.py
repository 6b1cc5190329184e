"""The checker of one group, for both protocols.

A group may change its protocol (KIP-848), and may have members of both protocols. The owners of partitions and the
sessions of members outlast the change. The rules are those of the group's current protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.simulation.checkers.classic import ClassicRules
from tests.simulation.checkers.consumer import ConsumerRules
from tests.simulation.checkers.ownership import Owner, Ownership
from tests.simulation.checkers.sessions import Sessions
from tests.simulation.topics import DataPartition
from tests.simulation.violation import Violation

from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.metadata.image import MetadataImage
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import TopicPartitions as OwnedPartitions
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse, TopicPartitions
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["AnyGroup", "GroupChecker", "Moment"]

AnyGroup = ClassicGroup | ConsumerGroup | None


class Moment(NamedTuple):
    """The time and the state in which a request is answered."""

    asked_at_ms: float
    now_ms: float
    was_parked: bool
    """Whether the request was decided in an earlier step."""
    group: AnyGroup
    image: MetadataImage
    """The broker's metadata of the topics."""


class GroupChecker:
    """The checker of one group: what its members were told, and what the group may do next."""

    def __init__(self, group_id: str, session_timeout_ms: int) -> None:
        self.sessions = Sessions()
        self.ownership = Ownership()
        self.classic = ClassicRules(group_id, self.sessions)
        self.consumer = ConsumerRules(self.sessions, self.ownership, session_timeout_ms)
        self._told: dict[str, frozenset[DataPartition]] = {}
        """The last assignment that each member of the consumer protocol got."""
        self._told_epoch: dict[str, int] = {}
        """The last generation or member epoch that each member got."""
        self._before: AnyGroup = None
        self._has_changed_protocol = False
        self._is_new_round = False
        self._was_empty = True

    # Coordinators

    def forget(self) -> None:
        """Resets the state: the group is deleted, and a new group may get its id."""
        self.ownership.forget()
        self.classic.forget()
        self._before = None
        self._has_changed_protocol = False
        self._told_epoch.clear()
        self._told.clear()
        self.begin_round(0.0)

    def begin_round(self, now_ms: float) -> None:
        """Starts a new round: another coordinator leads the group, and knows only what the log contains."""
        self.sessions.begin_round(now_ms)
        self.ownership.begin_round()
        self._is_new_round = True
        self.classic.begin_round(now_ms)
        self.consumer.begin_round(now_ms)

    def forgive(self, now_ms: float) -> None:
        """Restarts all time limits: the coordinator was stopped, or could not write."""
        self.sessions.forgive(now_ms)

    # Requests

    def on_request(self, request: Message, now_ms: float) -> None:
        """Handles a request that has reached the coordinator and is not decided yet."""
        left = self.sessions.left
        if isinstance(request, LeaveGroupRequest):
            for identity in request.members:
                left.update(name for name in (identity.member_id, identity.group_instance_id) if name)
        elif isinstance(request, ConsumerGroupHeartbeatRequest):
            self.sessions.see(request.member_id, now_ms)
            if request.member_epoch < 0:
                left.add(request.member_id)
            if request.instance_id is not None and request.member_epoch == 0:
                left.add(request.instance_id)
                self.sessions.returning.add(request.instance_id)
        elif isinstance(request, JoinGroupRequest):
            self.sessions.see(request.member_id, now_ms)
            if request.group_instance_id is not None and not request.member_id:
                left.add(request.group_instance_id)
        elif isinstance(request, HeartbeatRequest | SyncGroupRequest | OffsetCommitRequest):
            self.sessions.see(request.member_id, now_ms)
            if isinstance(request, SyncGroupRequest):
                assigned = {each.member_id: each.assignment for each in request.assignments}
                self.classic.on_shared(request.member_id, request.generation_id, assigned)

    def on_parked(self, request: Message, image: MetadataImage) -> None:
        """Handles a request that was decided, but not answered yet."""
        if isinstance(request, JoinGroupRequest):
            self._on_join_accepted(request, image)
        elif isinstance(request, ConsumerGroupHeartbeatRequest) and request.topic_partitions is not None:
            # The reported partitions may count even if the request is never answered.
            self.ownership.may_release(request.member_id, _by_id(request.topic_partitions))

    def stale_commit(
        self, request: OffsetCommitRequest, partitions: frozenset[DataPartition], group: AnyGroup
    ) -> frozenset[DataPartition]:
        """I16: returns the partitions for which a commit that is decided now must not be accepted."""
        if isinstance(group, ConsumerGroup):
            return self.consumer.stale(request, partitions, group)
        return frozenset() if self.classic.is_current(request, group) else partitions

    def on_commit_accepted(self, request: OffsetCommitRequest, at_ms: float, group: AnyGroup) -> None:
        """Restarts the session of a classic group's member: an accepted commit shows that the member is alive."""
        if isinstance(group, ClassicGroup) and request.generation_id_or_member_epoch >= 0:
            self.sessions.hear(request.member_id, at_ms)

    # Answers

    def on_answer(self, request: Message, response: Message, moment: Moment) -> None:
        """Checks an answer of the coordinator."""
        self._notice_protocol(moment.group)
        group, image = moment.group, moment.image
        if isinstance(response, HeartbeatResponse):
            assert isinstance(request, HeartbeatRequest)
            # While a group is loading, the coordinator accepts every heartbeat without a check, so such a heartbeat
            # does not count.
            if response.error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS) and group is not None:
                self.sessions.hear(request.member_id, moment.asked_at_ms)
        elif getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
            return
        elif isinstance(response, ConsumerGroupHeartbeatResponse):
            assert isinstance(request, ConsumerGroupHeartbeatRequest)
            self._on_told(request, response, moment)
        elif isinstance(response, JoinGroupResponse):
            assert isinstance(request, JoinGroupRequest)
            self._told_epoch[response.member_id] = response.generation_id
            self.classic.on_leader(response.leader, response.generation_id)
            if not moment.was_parked:
                self._on_join_accepted(request, image)
            if not request.member_id or isinstance(group, ConsumerGroup):
                self.sessions.hear(response.member_id, moment.asked_at_ms)
        elif isinstance(response, SyncGroupResponse):
            assert isinstance(request, SyncGroupRequest)
            self._on_assigned(request, response.assignment, moment)

    def _on_join_accepted(self, request: JoinGroupRequest, image: MetadataImage) -> None:
        """Releases the partitions that a joining member does not report as owned."""
        said = decode_subscription(request.protocols[0].metadata).owned_partitions
        self.ownership.release(request.member_id, _by_name(((topic.topic, topic.partitions) for topic in said), image))

    def _on_assigned(self, request: SyncGroupRequest, assignment: bytes, moment: Moment) -> None:
        group = moment.group
        member_id, generation = request.member_id, request.generation_id
        self.ownership.settle(member_id)
        if isinstance(group, ConsumerGroup):
            self.sessions.hear(member_id, moment.asked_at_ms)
            self.consumer.sync(member_id, moment.asked_at_ms)
        elif group is not None:
            self.classic.tell(member_id, generation)
            if not self._has_changed_protocol:
                self.classic.check_assignment(member_id, generation, assignment)
        assigned = decode_assignment(assignment).assigned_partitions if assignment else ()
        self.ownership.give(
            Owner(member_id, request.group_instance_id, generation),
            _by_name(((topic.topic, topic.partitions) for topic in assigned), moment.image),
            lambda owner, partition: self._is_gone(owner, partition, generation, group),
        )

    def _on_told(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse, moment: Moment
    ) -> None:
        group = moment.group
        member_id = response.member_id or request.member_id
        if request.member_epoch < 0:
            # The member has left. If it is static, a new process may take over its partitions.
            self.ownership.release(member_id, frozenset())
            return
        if member_id != request.member_id and request.member_epoch > 0:
            raise Violation(16, f"{request.member_id} was taken for {member_id}")
        self._check_epoch(request)
        self.sessions.hear(member_id, moment.asked_at_ms)
        # A member that joins has no partitions, even if it got some earlier.
        before = frozenset() if request.member_epoch == 0 else self._told.get(member_id, frozenset())
        told = before if response.assignment is None else _by_id(response.assignment.topic_partitions)
        if not moment.was_parked and isinstance(group, ConsumerGroup):
            self.consumer.check_kept(member_id, before - told, group, moment.image.topics_by_id)
        self._told[member_id] = told
        self._told_epoch[member_id] = response.member_epoch
        self.ownership.settle(member_id)
        if request.topic_partitions is not None:
            self.ownership.release(member_id, told | _by_id(request.topic_partitions))
        if response.assignment is not None:
            self.ownership.give(
                Owner(member_id, request.instance_id, response.member_epoch),
                told,
                lambda owner, partition: self._is_gone(owner, partition, response.member_epoch, group),
            )

    def _check_epoch(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """I16: checks that a member with an outdated epoch is accepted only with partitions that it was given."""
        member_id, epoch = request.member_id, request.member_epoch
        if not 0 < epoch < self._told_epoch.get(member_id, 0):
            return
        told = self._told.get(member_id, frozenset())
        if request.topic_partitions is None or not _by_id(request.topic_partitions) <= told:
            raise Violation(
                16, f"{member_id} was not fenced at epoch {epoch}, having been told {self._told_epoch[member_id]}"
            )

    def _is_gone(self, owner: Owner, partition: DataPartition, epoch: int, group: AnyGroup) -> bool:
        if isinstance(group, ClassicGroup):
            # When a group goes back to the classic protocol, the target assignment counts as what its members have.
            # Members that had other partitions are fenced by the generation, and join again.
            told_epoch = self._told_epoch.get(owner.member_id, owner.epoch)
            is_fenced = self._has_changed_protocol and told_epoch < group.generation
            return is_fenced or self.classic.is_gone(owner, epoch, group)
        member = None if group is None else group.members.get(owner.member_id)
        if member is None:
            return True
        # A member that does not know its current epoch is fenced too, unless the partition is still assigned to that
        # member.
        is_behind = self._told_epoch.get(owner.member_id, owner.epoch) < member.member_epoch
        return is_behind and member.assignment_epoch(partition[0], PartitionIndex(partition[1])) is None

    # After each step

    def look(self, group: AnyGroup, now_ms: float) -> None:
        """Checks the group after a step."""
        self._notice_protocol(group)
        if self._is_new_round and group is not None:
            self._is_new_round = False
            for member_id in sorted(self.ownership.members() - group.members.keys()):
                self.ownership.take_out(member_id)
        self.classic.look(group if isinstance(group, ClassicGroup) else None, now_ms)
        self.consumer.look(group if isinstance(group, ConsumerGroup) else None, now_ms)
        self.sessions.left.clear()
        self.sessions.returning.clear()

    def _notice_protocol(self, group: AnyGroup) -> None:
        """Detects a change of the group's protocol, and keeps the state before the change."""
        before = self._before
        if before is not None and group is not None and type(before) is not type(group):
            self._has_changed_protocol = True
            if self._was_empty:
                # No member is converted: the group starts again, with a new generation.
                self.ownership.forget()
                self.classic.told_generation = -1
        self._before = group
        self._was_empty = group is None or group.is_empty

    def check_waits(self, group: AnyGroup, now_ms: float, initial_delay_ms: int) -> None:
        """I26: checks that nothing waits too long."""
        if isinstance(group, ClassicGroup):
            self.classic.check_waits(group, now_ms, initial_delay_ms)
        elif isinstance(group, ConsumerGroup):
            self.consumer.check_waits(group, now_ms)


def _by_id(topics: Iterable[OwnedPartitions | TopicPartitions]) -> frozenset[DataPartition]:
    return frozenset((TopicId(topic.topic_id), index) for topic in topics for index in topic.partitions)


def _by_name(topics: Iterable[tuple[str, list[int]]], image: MetadataImage) -> frozenset[DataPartition]:
    """Returns the partitions of the topics that exist."""
    return frozenset(
        (image.topics[name].topic_id, index) for name, indexes in topics if name in image.topics for index in indexes
    )
