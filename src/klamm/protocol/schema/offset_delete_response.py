# OffsetDeleteResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class OffsetDeleteResponse(Message):
    __slots__ = ("error_code", "throttle_time_ms", "topics")
    NAME = "OffsetDeleteResponse"
    API_KEY = 47
    TYPE = "response"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, True),
        ("topics", "[]OffsetDeleteResponseTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] = NEW,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class OffsetDeleteResponseTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]OffsetDeleteResponsePartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class OffsetDeleteResponsePartition(Message):
    __slots__ = ("partition_index", "error_code")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
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
