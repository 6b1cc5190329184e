# DescribeShareGroupOffsetsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeShareGroupOffsetsRequest(Message):
    __slots__ = ("groups",)
    NAME = "DescribeShareGroupOffsetsRequest"
    API_KEY = 90
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("groups", "[]DescribeShareGroupOffsetsRequestGroup", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequestGroup] = NEW,
    ) -> None:
        self.groups = [] if groups is NEW else groups


class DescribeShareGroupOffsetsRequestGroup(Message):
    __slots__ = ("group_id", "topics")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("topics", "[]DescribeShareGroupOffsetsRequestTopic", (0, 32767), (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = NEW,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class DescribeShareGroupOffsetsRequestTopic(Message):
    __slots__ = ("topic_name", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions
