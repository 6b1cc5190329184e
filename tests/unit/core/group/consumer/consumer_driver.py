"""A driver for consumer groups on a shard: sends heartbeats and returns their answers and the state of the group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from tests.unit.core.group.painted_topics import PaintedTopics, topic_id
from tests.unit.core.group.shard_driver import GROUP, ShardDriver, Written

from klamm.core.coordinator.shard_contract import DeletedTopic
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_config import GroupConfig
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.types import Millis, PartitionIndex

__all__ = ["EVENTS", "GROUP", "Beat", "ConsumerDriver", "name_of", "owned", "slow"]

EVENTS = "events"


def name_of(topic_id: bytes) -> str:
    """Returns the name of a painted topic by its topic id."""
    return topic_id[:15].rstrip(b".").decode()


def owned(**partitions: Sequence[int]) -> list[TopicPartitions]:
    """Returns the owned partitions that a member reports in a heartbeat; the topics are given by name."""
    return [TopicPartitions(topic_id=topic_id(name), partitions=list(each)) for name, each in partitions.items()]


class Beat:
    """The answer to one heartbeat."""

    def __init__(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.response = response
        self.code = ErrorCode(response.error_code)
        self.message = response.error_message
        self.member_id = response.member_id or ""
        self.epoch = response.member_epoch

    @property
    def assigned(self) -> dict[str, list[int]] | None:
        """Returns the assigned partitions by topic name, or None if the answer has no assignment."""
        if self.response.assignment is None:
            return None
        return {name_of(topic.topic_id): list(topic.partitions) for topic in self.response.assignment.topic_partitions}

    def __repr__(self) -> str:
        return f"Beat({self.code.name}, {self.epoch}, {self.assigned}, {self.message!r})"


class ConsumerDriver(ShardDriver):
    """A shard with consumer groups, over painted topics. The assignment interval is 0 by default."""

    def __init__(
        self,
        config: GroupCoordinatorConfig | None = None,
        *,
        topics: PaintedTopics | None = None,
        settings: GroupConfig | None = None,
        log: Sequence[Written] = (),
        now: Millis | None = None,
        ids: Iterator[int] | None = None,
    ) -> None:
        more: dict[str, Any] = {} if now is None else {"now": now}
        super().__init__(
            config,
            log=log,
            ids=ids,
            topics=topics or PaintedTopics(events=6, audit=2),
            settings=settings or GroupConfig(assignment_interval_ms=0),
            **more,
        )

    def reload(self) -> ConsumerDriver:
        """Returns a driver with a new shard that is loaded from the log."""
        return ConsumerDriver(
            self.config,
            topics=cast(PaintedTopics, self.topics),
            settings=self.settings,
            log=self.log,
            now=self.now,
            ids=self._ids,
        )

    def paint(self, topics: PaintedTopics) -> None:
        """Replaces the topics of the cluster, and tells the shard."""
        before, self.topics = self.topics, topics
        deleted = [
            DeletedTopic(name, facts.topic_id)
            for name in before.names()
            if (facts := before.by_name(name)) is not None and topics.by_id(facts.topic_id) is None
        ]
        self.apply(self.shard.on_metadata_update(topics, deleted, self.now))
        self.do_chores()

    # Requests of members

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group_id: str = GROUP,
        version: int = 1,
        client_id: str = "client",
        **fields: Any,
    ) -> Beat:
        """Sends one heartbeat, and returns its answer; fails if there is none."""
        answer = self.maybe_beat(member_id, epoch, group_id=group_id, version=version, client_id=client_id, **fields)
        assert isinstance(answer, Beat), answer
        return answer

    def maybe_beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group_id: str = GROUP,
        version: int = 1,
        client_id: str = "client",
        **fields: Any,
    ) -> Beat | ErrorCode | None:
        """Sends one heartbeat; returns an error code if the append failed, or None if the answer is parked."""
        request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **fields)
        ticket = self.ask(GroupShard.handle_consumer_group_heartbeat, request, version, client_id)
        answer = self.answers.get(ticket)
        if answer is None or isinstance(answer, ErrorCode):
            return answer
        return Beat(cast(ConsumerGroupHeartbeatResponse, answer))

    def enter(
        self,
        member_id: str,
        *,
        names: Sequence[str] | None = (EVENTS,),
        regex: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = 60_000,
        **fields: Any,
    ) -> Beat:
        """Sends the first heartbeat of a member, with epoch 0."""
        return self.beat(
            member_id,
            0,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_timeout_ms,
            subscribed_topic_names=None if names is None else list(names),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=[],
            **fields,
        )

    def go(self, member_id: str, *, instance: str | None = None, for_a_while: bool = False) -> Beat:
        """Sends a leave heartbeat: epoch -2 if the static member leaves temporarily, otherwise -1."""
        return self.beat(member_id, -2 if for_a_while else -1, instance_id=instance)

    def settle(self, *member_ids: str, rounds: int = 6) -> None:
        """Sends heartbeats of members that follow their assignments at once, for a number of rounds."""
        for _ in range(rounds):
            for member_id in member_ids or list(self.consumer_group().members):
                self.obey(member_id)
            self.run_tasks()

    def obey(self, member_id: str) -> Beat:
        """Sends a heartbeat of a member that owns exactly its assigned partitions."""
        member = self.member(member_id)
        partitions = [
            TopicPartitions(topic_id=each, partitions=list(indexes)) for each, indexes in member.assigned.items()
        ]
        return self.beat(
            member_id,
            member.member_epoch,
            topic_partitions=partitions,
            instance_id=member.instance_id,
            client_id=member.client_id,
        )

    # State for assertions

    def consumer_group(self, group_id: str = GROUP) -> ConsumerGroup:
        return self.shard.consumer_groups.store.groups[group_id]

    def member(self, member_id: str) -> ConsumerGroupMember:
        return self.consumer_group().members[member_id]

    def consumer_state(self) -> ConsumerGroupState:
        return self.consumer_group().state

    def assigned(self, member_id: str) -> dict[str, list[int]]:
        """Returns the partitions that the coordinator has assigned to a member."""
        return {
            name_of(topic): [*map(int, sorted(partitions))]
            for topic, partitions in self.member(member_id).assigned.items()
        }

    def owner(self, partition: int, topic: str = EVENTS) -> str | None:
        return self.consumer_group().owner(topic_id(topic), PartitionIndex(partition))

    def described(self, group_id: str = GROUP) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        answer = self.answers[self.ask(GroupShard.handle_consumer_group_describe, request, 1)]
        return cast(ConsumerGroupDescribeResponse, answer).groups[0]

    def happened(self, kind: type) -> list[Any]:
        """Returns all events of one kind so far."""
        return [event for event in self.events if type(event) is kind]


def slow(**changes: Any) -> GroupConfig:
    """Returns settings with the assignment interval of Kafka's defaults, and some changes."""
    return replace(GroupConfig(), **changes)
