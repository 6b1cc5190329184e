# ConsumerProtocolAssignment of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ConsumerProtocolAssignment(Message):
    __slots__ = ("assigned_partitions", "user_data")
    NAME = "ConsumerProtocolAssignment"
    API_KEY = None
    TYPE = "data"
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("assigned_partitions", "[]TopicPartition", (0, 32767), None, None, None, (), False),
        ("user_data", "bytes", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        assigned_partitions: list[TopicPartition] = NEW,
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is NEW else assigned_partitions
        self.user_data = user_data


class TopicPartition(Message):
    __slots__ = ("topic", "partitions")
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = None
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
