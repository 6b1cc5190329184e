# DescribeProducersRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeProducersRequest(Message):
    __slots__ = ("topics",)
    NAME = "DescribeProducersRequest"
    API_KEY = 61
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topics", "[]TopicRequest", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = NEW,
    ) -> None:
        self.topics = [] if topics is NEW else topics


class TopicRequest(Message):
    __slots__ = ("name", "partition_indexes")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partition_indexes", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = NEW,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes
