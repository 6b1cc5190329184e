# AlterReplicaLogDirsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AlterReplicaLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    NAME = "AlterReplicaLogDirsResponse"
    API_KEY = 34
    TYPE = "response"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("results", "[]AlterReplicaLogDirTopicResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


class AlterReplicaLogDirTopicResult(Message):
    __slots__ = ("topic_name", "partitions")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]AlterReplicaLogDirPartitionResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterReplicaLogDirPartitionResult] = NEW,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class AlterReplicaLogDirPartitionResult(Message):
    __slots__ = ("partition_index", "error_code")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
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
