# DescribeLogDirsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeLogDirsRequest(Message):
    __slots__ = ("topics",)
    NAME = "DescribeLogDirsRequest"
    API_KEY = 35
    TYPE = "request"
    VERSIONS = (1, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("topics", "[]DescribableLogDirTopic", (0, 32767), (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topics: list[DescribableLogDirTopic] | None = NEW,
    ) -> None:
        self.topics = [] if topics is NEW else topics


class DescribableLogDirTopic(Message):
    __slots__ = ("topic", "partitions")
    VERSIONS = (1, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("topic", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions
