# ShareGroupHeartbeatResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ShareGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment")
    NAME = "ShareGroupHeartbeatResponse"
    API_KEY = 76
    TYPE = "response"
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("member_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("heartbeat_interval_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("assignment", "Assignment", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


class Assignment(Message):
    __slots__ = ("topic_partitions",)
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_partitions", "[]TopicPartitions", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] = NEW,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions


class TopicPartitions(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (1, 1)
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
