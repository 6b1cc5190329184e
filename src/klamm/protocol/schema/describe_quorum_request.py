# DescribeQuorumRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeQuorumRequest(Message):
    __slots__ = ("topics",)
    NAME = "DescribeQuorumRequest"
    API_KEY = 55
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topics", "[]TopicData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topics: list[TopicData] = NEW,
    ) -> None:
        self.topics = [] if topics is NEW else topics


class TopicData(Message):
    __slots__ = ("topic_name", "partitions")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]PartitionData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[PartitionData] = NEW,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class PartitionData(Message):
    __slots__ = ("partition_index",)
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index
