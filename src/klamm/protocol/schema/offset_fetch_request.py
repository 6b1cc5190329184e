# OffsetFetchRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class OffsetFetchRequest(Message):
    __slots__ = ("group_id", "topics", "groups", "require_stable")
    NAME = "OffsetFetchRequest"
    API_KEY = 9
    TYPE = "request"
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("group_id", "string", (0, 7), None, None, None, "", False),
        ("topics", "[]OffsetFetchRequestTopic", (0, 7), (2, 7), None, None, (), False),
        ("groups", "[]OffsetFetchRequestGroup", (8, 32767), None, None, None, (), False),
        ("require_stable", "bool", (7, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = NEW,
        groups: list[OffsetFetchRequestGroup] = NEW,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics
        self.groups = [] if groups is NEW else groups
        self.require_stable = require_stable


class OffsetFetchRequestTopic(Message):
    __slots__ = ("name", "partition_indexes")
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("name", "string", (0, 7), None, None, None, "", False),
        ("partition_indexes", "[]int32", (0, 7), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = NEW,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class OffsetFetchRequestGroup(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics")
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("group_id", "string", (8, 32767), None, None, None, "", False),
        ("member_id", "string", (9, 32767), (9, 32767), None, None, None, True),
        ("member_epoch", "int32", (9, 32767), None, None, None, -1, True),
        ("topics", "[]OffsetFetchRequestTopics", (8, 32767), (8, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = [] if topics is NEW else topics


class OffsetFetchRequestTopics(Message):
    __slots__ = ("name", "topic_id", "partition_indexes")
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("name", "string", (8, 9), None, None, None, "", True),
        ("topic_id", "uuid", (10, 32767), None, None, None, ZERO_UUID, True),
        ("partition_indexes", "[]int32", (8, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_indexes: list[int] = NEW,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes
