# DeleteShareGroupOffsetsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DeleteShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics")
    NAME = "DeleteShareGroupOffsetsRequest"
    API_KEY = 92
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("topics", "[]DeleteShareGroupOffsetsRequestTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsRequestTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class DeleteShareGroupOffsetsRequestTopic(Message):
    __slots__ = ("topic_name",)
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name
