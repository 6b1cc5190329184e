# DescribeTopicPartitionsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeTopicPartitionsRequest(Message):
    __slots__ = ("topics", "response_partition_limit", "cursor")
    NAME = "DescribeTopicPartitionsRequest"
    API_KEY = 75
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topics", "[]TopicRequest", (0, 32767), None, None, None, (), False),
        ("response_partition_limit", "int32", (0, 32767), None, None, None, 2000, False),
        ("cursor", "Cursor", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = NEW,
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class TopicRequest(Message):
    __slots__ = ("name",)
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name = name


class Cursor(Message):
    __slots__ = ("topic_name", "partition_index")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
