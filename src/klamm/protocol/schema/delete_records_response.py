# DeleteRecordsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DeleteRecordsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    NAME = "DeleteRecordsResponse"
    API_KEY = 21
    TYPE = "response"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("topics", "[]DeleteRecordsTopicResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class DeleteRecordsTopicResult(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]DeleteRecordsPartitionResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartitionResult] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DeleteRecordsPartitionResult(Message):
    __slots__ = ("partition_index", "low_watermark", "error_code")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("low_watermark", "int64", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code
