# ListOffsetsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ListOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    NAME = "ListOffsetsResponse"
    API_KEY = 2
    TYPE = "response"
    VERSIONS = (1, 11)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("throttle_time_ms", "int32", (2, 32767), None, None, None, 0, True),
        ("topics", "[]ListOffsetsTopicResponse", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsTopicResponse] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class ListOffsetsTopicResponse(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (1, 11)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]ListOffsetsPartitionResponse", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartitionResponse] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class ListOffsetsPartitionResponse(Message):
    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    VERSIONS = (1, 11)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("timestamp", "int64", (1, 32767), None, None, None, -1, False),
        ("offset", "int64", (1, 32767), None, None, None, -1, False),
        ("leader_epoch", "int32", (4, 32767), None, None, None, -1, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch
