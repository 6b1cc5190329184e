# ConsumerGroupHeartbeatRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ConsumerGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "instance_id", "rack_id", "rebalance_timeout_ms", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "topic_partitions")
    NAME = "ConsumerGroupHeartbeatRequest"
    API_KEY = 68
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("rebalance_timeout_ms", "int32", (0, 32767), None, None, None, -1, False),
        ("subscribed_topic_names", "[]string", (0, 32767), (0, 32767), None, None, None, False),
        ("subscribed_topic_regex", "string", (1, 32767), (1, 32767), None, None, None, False),
        ("server_assignor", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("topic_partitions", "[]TopicPartitions", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


class TopicPartitions(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions
