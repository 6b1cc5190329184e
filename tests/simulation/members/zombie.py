"""Zombies: requests with an identity that a member had earlier.

They come from a restored virtual machine, a proxy that repeats requests, or a faulty client. A zombie sends what its
member would have sent at that time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.loop import Process
from tests.simulation.members.consumer import ConsumerMember
from tests.simulation.network import Call, Connection

from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.sync_group_request import SyncGroupRequest

if TYPE_CHECKING:
    from tests.simulation.members.member import Member
    from tests.simulation.world import World

__all__ = ["Zombies"]


class Zombies:
    """The zombies of all members."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._process = Process(world.loop)

    def act(self) -> None:
        """Sends one request of a random zombie."""
        loop = self._world.loop
        member = loop.random.choice(self._world.members)
        if not member.former:
            return
        # Recent identities are more likely.
        member_id, epoch = member.former[-1 - int(loop.random.random() ** 3 * len(member.former))]
        broker = self._world.cluster.coordinator_of(member.plan.group_id)
        if broker is None or broker.process is None:
            return
        others = (self._consumer_heartbeat,) if isinstance(member, ConsumerMember) else (self._heartbeat, self._sync)
        make = loop.random.choice((self._commit, self._commit, *others))
        request, version = make(member, member_id, epoch)
        connection = Connection(self._world.network, "zombie", self._process, broker)
        connection.send(Call("zombie", request, version, lambda answer: None))

    def _commit(self, member: Member, member_id: str, epoch: int) -> tuple[Message, int]:
        topics = self._world.topics
        name = self._world.loop.random.choice(list(self._world.plan.topics))
        topic = topics.image.topics.get(name)
        requested = []
        if topic is not None:
            # The zombie never read beyond the end of what its group has read.
            read = self._world.checkers.reading.read.get((member.plan.group_id, (topic.topic_id, 0)), 0)
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=self._world.loop.between(0, read)
            )
            requested.append(OffsetCommitRequestTopic(name=name, topic_id=topic.topic_id, partitions=[partition]))
        request = OffsetCommitRequest(
            group_id=member.plan.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=member.plan.instance_id if self._world.loop.chance(0.5) else None,
            topics=requested,
        )
        return request, member.plan.commit_version

    def _heartbeat(self, member: Member, member_id: str, epoch: int) -> tuple[Message, int]:
        return HeartbeatRequest(
            group_id=member.plan.group_id,
            generation_id=epoch,
            member_id=member_id,
            group_instance_id=member.plan.instance_id,
        ), 4

    def _sync(self, member: Member, member_id: str, epoch: int) -> tuple[Message, int]:
        return SyncGroupRequest(
            group_id=member.plan.group_id,
            generation_id=epoch,
            member_id=member_id,
            group_instance_id=member.plan.instance_id,
        ), 5

    def _consumer_heartbeat(self, member: Member, member_id: str, epoch: int) -> tuple[Message, int]:
        return ConsumerGroupHeartbeatRequest(
            group_id=member.plan.group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=member.plan.instance_id,
        ), 1
