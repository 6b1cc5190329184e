# DeleteTopicsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class DeleteTopicsRequest(Message):
    __slots__ = ("topics", "topic_names", "timeout_ms")
    NAME = "DeleteTopicsRequest"
    API_KEY = 20
    TYPE = "request"
    VERSIONS = (1, 6)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("topics", "[]DeleteTopicState", (6, 32767), None, None, None, (), False),
        ("topic_names", "[]string", (0, 5), None, None, None, (), True),
        ("timeout_ms", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] = NEW,
        topic_names: list[str] = NEW,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.topic_names = [] if topic_names is NEW else topic_names
        self.timeout_ms = timeout_ms


class DeleteTopicState(Message):
    __slots__ = ("name", "topic_id")
    VERSIONS = (1, 6)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("name", "string", (6, 32767), (6, 32767), None, None, None, False),
        ("topic_id", "uuid", (6, 32767), None, None, None, ZERO_UUID, False),
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
