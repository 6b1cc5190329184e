# OffsetCommitRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class OffsetCommitRequest(Message):
    __slots__ = ("group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id", "retention_time_ms", "topics")
    NAME = "OffsetCommitRequest"
    API_KEY = 8
    TYPE = "request"
    VERSIONS = (2, 10)
    FLEXIBLE_FROM = 8
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("generation_id_or_member_epoch", "int32", (1, 32767), None, None, None, -1, True),
        ("member_id", "string", (1, 32767), None, None, None, "", True),
        ("group_instance_id", "string", (7, 32767), (7, 32767), None, None, None, False),
        ("retention_time_ms", "int64", (2, 4), None, None, None, -1, True),
        ("topics", "[]OffsetCommitRequestTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is NEW else topics


class OffsetCommitRequestTopic(Message):
    __slots__ = ("name", "topic_id", "partitions")
    VERSIONS = (2, 10)
    FLEXIBLE_FROM = 8
    FIELDS = (
        ("name", "string", (0, 9), None, None, None, "", True),
        ("topic_id", "uuid", (10, 32767), None, None, None, ZERO_UUID, True),
        ("partitions", "[]OffsetCommitRequestPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitRequestPartition] = NEW,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class OffsetCommitRequestPartition(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    VERSIONS = (2, 10)
    FLEXIBLE_FROM = 8
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("committed_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("committed_leader_epoch", "int32", (6, 32767), None, None, None, -1, True),
        ("committed_metadata", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata
