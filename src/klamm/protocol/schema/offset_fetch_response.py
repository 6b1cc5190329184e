# OffsetFetchResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class OffsetFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")
    NAME = "OffsetFetchResponse"
    API_KEY = 9
    TYPE = "response"
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("throttle_time_ms", "int32", (3, 32767), None, None, None, 0, True),
        ("topics", "[]OffsetFetchResponseTopic", (0, 7), None, None, None, (), False),
        ("error_code", "int16", (2, 7), None, None, None, 0, True),
        ("groups", "[]OffsetFetchResponseGroup", (8, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = NEW,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
        self.error_code = error_code
        self.groups = [] if groups is NEW else groups


class OffsetFetchResponseTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("name", "string", (0, 7), None, None, None, "", False),
        ("partitions", "[]OffsetFetchResponsePartition", (0, 7), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class OffsetFetchResponsePartition(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("partition_index", "int32", (0, 7), None, None, None, 0, False),
        ("committed_offset", "int64", (0, 7), None, None, None, 0, False),
        ("committed_leader_epoch", "int32", (5, 7), None, None, None, -1, True),
        ("metadata", "string", (0, 7), (0, 7), None, None, "", False),
        ("error_code", "int16", (0, 7), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseGroup(Message):
    __slots__ = ("group_id", "topics", "error_code")
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("group_id", "string", (8, 32767), None, None, None, "", False),
        ("topics", "[]OffsetFetchResponseTopics", (8, 32767), None, None, None, (), False),
        ("error_code", "int16", (8, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] = NEW,
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics
        self.error_code = error_code


class OffsetFetchResponseTopics(Message):
    __slots__ = ("name", "topic_id", "partitions")
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("name", "string", (8, 9), None, None, None, "", True),
        ("topic_id", "uuid", (10, 32767), None, None, None, ZERO_UUID, True),
        ("partitions", "[]OffsetFetchResponsePartitions", (8, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetFetchResponsePartitions] = NEW,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class OffsetFetchResponsePartitions(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("partition_index", "int32", (8, 32767), None, None, None, 0, False),
        ("committed_offset", "int64", (8, 32767), None, None, None, 0, False),
        ("committed_leader_epoch", "int32", (8, 32767), None, None, None, -1, True),
        ("metadata", "string", (8, 32767), (8, 32767), None, None, "", False),
        ("error_code", "int16", (8, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code
