# ListOffsetsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ListOffsetsRequest(Message):
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")
    NAME = "ListOffsetsRequest"
    API_KEY = 2
    TYPE = "request"
    VERSIONS = (1, 11)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("replica_id", "int32", (0, 32767), None, None, None, 0, False),
        ("isolation_level", "int8", (2, 32767), None, None, None, 0, False),
        ("topics", "[]ListOffsetsTopic", (0, 32767), None, None, None, (), False),
        ("timeout_ms", "int32", (10, 32767), None, None, None, 0, True),
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] = NEW,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms


class ListOffsetsTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (1, 11)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]ListOffsetsPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartition] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class ListOffsetsPartition(Message):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")
    VERSIONS = (1, 11)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("current_leader_epoch", "int32", (4, 32767), None, None, None, -1, True),
        ("timestamp", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
