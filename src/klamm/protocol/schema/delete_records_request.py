# DeleteRecordsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DeleteRecordsRequest(Message):
    __slots__ = ("topics", "timeout_ms")
    NAME = "DeleteRecordsRequest"
    API_KEY = 21
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("topics", "[]DeleteRecordsTopic", (0, 32767), None, None, None, (), False),
        ("timeout_ms", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] = NEW,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]DeleteRecordsPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartition] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DeleteRecordsPartition(Message):
    __slots__ = ("partition_index", "offset")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("offset", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset
