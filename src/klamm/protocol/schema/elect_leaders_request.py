# ElectLeadersRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ElectLeadersRequest(Message):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms")
    NAME = "ElectLeadersRequest"
    API_KEY = 43
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("election_type", "int8", (1, 32767), None, None, None, 0, False),
        ("topic_partitions", "[]TopicPartitions", (0, 32767), (0, 32767), None, None, (), False),
        ("timeout_ms", "int32", (0, 32767), None, None, None, 60000, False),
    )

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = NEW,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions
        self.timeout_ms = timeout_ms


class TopicPartitions(Message):
    __slots__ = ("topic", "partitions")
    VERSIONS = (0, 2)
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
