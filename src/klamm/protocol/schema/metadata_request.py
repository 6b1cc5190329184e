# MetadataRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class MetadataRequest(Message):
    __slots__ = ("topics", "allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations")
    NAME = "MetadataRequest"
    API_KEY = 3
    TYPE = "request"
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("topics", "[]MetadataRequestTopic", (0, 32767), (1, 32767), None, None, (), False),
        ("allow_auto_topic_creation", "bool", (4, 32767), None, None, None, True, False),
        ("include_cluster_authorized_operations", "bool", (8, 10), None, None, None, False, False),
        ("include_topic_authorized_operations", "bool", (8, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = NEW,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataRequestTopic(Message):
    __slots__ = ("topic_id", "name")
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("topic_id", "uuid", (10, 32767), None, None, None, ZERO_UUID, True),
        ("name", "string", (0, 32767), (10, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str | None = "",
    ) -> None:
        self.topic_id = topic_id
        self.name = name
