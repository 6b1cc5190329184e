# OffsetDeleteRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class OffsetDeleteRequest(Message):
    __slots__ = ("group_id", "topics")
    NAME = "OffsetDeleteRequest"
    API_KEY = 47
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("topics", "[]OffsetDeleteRequestTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class OffsetDeleteRequestTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]OffsetDeleteRequestPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class OffsetDeleteRequestPartition(Message):
    __slots__ = ("partition_index",)
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index
