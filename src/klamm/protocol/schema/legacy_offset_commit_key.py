# LegacyOffsetCommitKey of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class LegacyOffsetCommitKey(Message):
    __slots__ = ("group", "topic", "partition")
    NAME = "LegacyOffsetCommitKey"
    API_KEY = 0
    TYPE = "coordinator-key"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("group", "string", (0, 0), None, None, None, "", False),
        ("topic", "string", (0, 0), None, None, None, "", False),
        ("partition", "int32", (0, 0), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition
