"""Members of a consumer group (KIP-848), each with its own connection, for the conversations about such groups."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from tests.interop.wire_conversations.peer import Topic
from tests.interop.wire_conversations.talk import Talk

from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse

__all__ = ["ConsumerMember", "owned", "set_group", "wait_for_epochs"]

HEARTBEAT: Final = 1
"""The heartbeat version in conversations about other APIs."""
REBALANCE_TIMEOUT_MS: Final = 60_000


def owned(*topics: tuple[Topic, Sequence[int]]) -> list[TopicPartitions]:
    """Returns partitions in the form of a heartbeat request."""
    return [TopicPartitions(topic_id=topic.topic_id, partitions=list(partitions)) for topic, partitions in topics]


class ConsumerMember:
    """A member. Its id is `<conversation>-<name>` in versions where members choose their ids, otherwise the
    broker's."""

    def __init__(self, talk: Talk, name: str, group: str, instance: str | None = None) -> None:
        self.talk = talk.another(name)
        self.group = group
        self.instance = instance
        self.version = talk.version if talk.is_about(ConsumerGroupHeartbeatRequest) else HEARTBEAT
        self.member_id = talk.name(name) if self.version >= 1 else ""
        self.epoch = 0

    def join(self, *topics: Topic, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Joins, or joins again, with a subscription to topics and without owned partitions."""
        request = self._request(
            member_epoch=0,
            instance_id=self.instance,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[topic.name for topic in topics],
            topic_partitions=[],
        )
        return self._ask(request, fields)

    def heartbeat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Sends a heartbeat without changes, except those in `fields`."""
        return self._ask(self._request(instance_id=self.instance), fields)

    def own(self, *topics: tuple[Topic, Sequence[int]], **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Sends a heartbeat with the member's owned partitions."""
        return self.heartbeat(topic_partitions=owned(*topics), **fields)

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """Leaves the group; the epoch -2 means temporarily."""
        return self.heartbeat(member_epoch=epoch)

    def beat_until(self, what: str, **fields: Any) -> None:
        """Sends heartbeats until the member gets an assignment, and records only that answer, whose time is not
        predictable."""
        request = self._request(instance_id=self.instance)
        for name, value in fields.items():
            setattr(request, name, value)
        found: list[ConsumerGroupHeartbeatResponse] = []

        def is_assigned() -> bool:
            answer = self.talk.wire.call(ConsumerGroupHeartbeatResponse, self.version, copy.copy(request))
            request.member_epoch = self.epoch = answer.member_epoch
            found[:] = [answer]
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        self.talk.peer.until(is_assigned)
        self.talk.note_answer(what, found[0], self.version)

    def _request(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        fields.setdefault("member_epoch", self.epoch)
        return ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, **fields)

    def _ask(self, request: ConsumerGroupHeartbeatRequest, fields: dict[str, Any]) -> ConsumerGroupHeartbeatResponse:
        for name, value in fields.items():
            setattr(request, name, value)
        response = self.talk.ask(request, self.version)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if not response.error_code and "member_id" not in fields and "group_id" not in fields:
            if response.member_id and not self.member_id:
                self.talk.peer.masks.learn_text(response.member_id, "<member id>")
                self.member_id = response.member_id
            self.epoch = response.member_epoch
        return response


def set_group(talk: Talk, group: str, **configs: str) -> None:
    """Sets configs of a group, with underscores for dots, and waits until they are in effect."""
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value) for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = talk.peer.wire.call(IncrementalAlterConfigsResponse, 1, request)
    assert not response.responses[0].error_code, response
    talk.peer.settle()


def wait_for_epochs(talk: Talk, group: str, *epochs: int) -> None:
    """Waits until the epochs of the group's members are exactly these."""

    def is_there() -> bool:
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        (described,) = talk.peer.wire.call(ConsumerGroupDescribeResponse, 1, request).groups
        return sorted(member.member_epoch for member in described.members) == sorted(epochs)

    talk.peer.until(is_there)
