# ConsumerGroupRegularExpressionValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ConsumerGroupRegularExpressionValue(Message):
    __slots__ = ("topics", "version", "timestamp")
    NAME = "ConsumerGroupRegularExpressionValue"
    API_KEY = 16
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topics", "[]string", (0, 32767), None, None, None, (), False),
        ("version", "int64", (0, 32767), None, None, None, 0, False),
        ("timestamp", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topics: list[str] = NEW,
        version: int = 0,
        timestamp: int = 0,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.version = version
        self.timestamp = timestamp
