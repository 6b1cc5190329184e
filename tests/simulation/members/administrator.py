"""An administrator: it describes groups, resets and deletes offsets, and deletes groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.loop import Process
from tests.simulation.members.producer import PARTITIONS
from tests.simulation.network import Call, Connection
from tests.simulation.plan import LEDGER_GROUPS

from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from tests.simulation.members.member import Member
    from tests.simulation.plan import GroupPlan
    from tests.simulation.world import World

__all__ = ["Administrator"]

_WITH_NAMES = 9
"""The last version of OffsetFetch that contains topic names."""


class Administrator:
    """A client that sends one administrative request from time to time, for a group of the plan."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._process = Process(world.loop)

    def act(self) -> None:
        """Sends one request, and fetches the offsets soon after."""
        loop = self._world.loop
        group = loop.random.choice(self._world.plan.groups)
        if loop.chance(0.25):
            self._retire(group)
            return
        make: Callable[[GroupPlan], tuple[Message, int] | None] = loop.random.choice(
            (self._list, self._describe, self._delete, self._delete, self._delete_offsets, self._remove, self._reset)
        )
        made = make(group)
        if made is not None:
            self._ask(group.group_id, *made)
            loop.call_later(loop.between(0, 500), lambda: self.look_at_offsets(group.group_id))

    def _retire(self, group: GroupPlan) -> None:
        """Stops all members, and deletes the group when it may be empty. The supervisor restarts the members later."""
        loop = self._world.loop
        for member in self._world.members:
            if member.plan.group_id == group.group_id and member.is_running:
                member.shut_down()
                self._world.faults.start_again(member, 5_000, 20_000)
        for delay_ms in (200, 3_000):
            loop.call_later(delay_ms, lambda: self._ask(group.group_id, *self._delete(group)))
            loop.call_later(delay_ms + 500, lambda: self.look_at_offsets(group.group_id))

    def look_at_offsets(self, group_id: str) -> None:
        """Fetches all offsets of a group; the checkers check the answer."""
        topics = [
            OffsetFetchRequestTopics(
                name=topic.name, topic_id=topic.topic_id, partition_indexes=list(range(len(topic.partitions)))
            )
            for topic in self._world.topics.image.topics.values()
        ]
        self._ask(group_id, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)]), 10)

    def look_at_ledgers(self) -> None:
        """Fetches the offsets that transactions commit, sometimes with `require_stable`."""
        loop = self._world.loop
        group_id = loop.random.choice(LEDGER_GROUPS)
        topics = [
            OffsetFetchRequestTopics(name=producer.transactional_id, partition_indexes=list(range(PARTITIONS)))
            for producer in self._world.plan.producers
        ]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        self._ask(group_id, OffsetFetchRequest(groups=[group], require_stable=loop.chance(0.5)), _WITH_NAMES)

    def remove(self, member: Member) -> None:
        """Removes a member at once, even if the member waits for an answer."""
        identity = MemberIdentity(member_id=member.member_id, group_instance_id=member.plan.instance_id)
        group_id = member.plan.group_id
        self._ask(group_id, LeaveGroupRequest(group_id=group_id, members=[identity]), 5)

    def _ask(self, group_id: str, request: Message, version: int) -> None:
        broker = self._world.cluster.coordinator_of(group_id)
        if broker is None or broker.process is None:
            return
        connection = Connection(self._world.network, "administrator", self._process, broker)
        connection.send(Call("administrator", request, version, self._answered))

    def _answered(self, answer: Message | None) -> None:
        code = getattr(answer, "error_code", ErrorCode.NONE)
        self._world.expect_known("administrator", ErrorCode(code))

    def _list(self, group: GroupPlan) -> tuple[Message, int]:
        return ListGroupsRequest(), 5

    def _describe(self, group: GroupPlan) -> tuple[Message, int]:
        return DescribeGroupsRequest(groups=[group.group_id]), 6

    def _delete(self, group: GroupPlan) -> tuple[Message, int]:
        return DeleteGroupsRequest(groups_names=[group.group_id]), 2

    def _delete_offsets(self, group: GroupPlan) -> tuple[Message, int]:
        name = self._world.loop.random.choice(list(self._world.plan.topics))
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(2)]
        topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions)]
        return OffsetDeleteRequest(group_id=group.group_id, topics=topics), 0

    def _remove(self, group: GroupPlan) -> tuple[Message, int] | None:
        """Returns a LeaveGroup request for a static member, by its instance id."""
        instances = [member.instance_id for member in group.members if member.instance_id is not None]
        if not instances:
            return None
        identity = MemberIdentity(member_id="", group_instance_id=self._world.loop.random.choice(instances))
        return LeaveGroupRequest(group_id=group.group_id, members=[identity]), 5

    def _reset(self, group: GroupPlan) -> tuple[Message, int] | None:
        """Returns a request that sets an offset of a group back; it succeeds while the group has no members."""
        loop, topics = self._world.loop, self._world.topics.image.topics
        if not topics:
            return None
        topic = topics[loop.random.choice(list(topics))]
        read = self._world.checkers.reading.read.get((group.group_id, (topic.topic_id, 0)), 0)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=loop.between(0, read))
        requested = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=[partition])
        return OffsetCommitRequest(group_id=group.group_id, topics=[requested]), 10
