# AssignReplicasToDirsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class AssignReplicasToDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "directories")
    NAME = "AssignReplicasToDirsResponse"
    API_KEY = 73
    TYPE = "response"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("directories", "[]DirectoryData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[DirectoryData] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = [] if directories is NEW else directories


class DirectoryData(Message):
    __slots__ = ("id", "topics")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("topics", "[]TopicData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        id: bytes = ZERO_UUID,
        topics: list[TopicData] = NEW,
    ) -> None:
        self.id = id
        self.topics = [] if topics is NEW else topics


class TopicData(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]PartitionData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class PartitionData(Message):
    __slots__ = ("partition_index", "error_code")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
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
