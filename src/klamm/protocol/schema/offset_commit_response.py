# OffsetCommitResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class OffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    NAME = "OffsetCommitResponse"
    API_KEY = 8
    TYPE = "response"
    VERSIONS = (2, 10)
    FLEXIBLE_FROM = 8
    FIELDS = (
        ("throttle_time_ms", "int32", (3, 32767), None, None, None, 0, True),
        ("topics", "[]OffsetCommitResponseTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponseTopic] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class OffsetCommitResponseTopic(Message):
    __slots__ = ("name", "topic_id", "partitions")
    VERSIONS = (2, 10)
    FLEXIBLE_FROM = 8
    FIELDS = (
        ("name", "string", (0, 9), None, None, None, "", True),
        ("topic_id", "uuid", (10, 32767), None, None, None, ZERO_UUID, True),
        ("partitions", "[]OffsetCommitResponsePartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitResponsePartition] = NEW,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class OffsetCommitResponsePartition(Message):
    __slots__ = ("partition_index", "error_code")
    VERSIONS = (2, 10)
    FLEXIBLE_FROM = 8
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
