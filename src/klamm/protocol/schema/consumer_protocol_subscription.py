# ConsumerProtocolSubscription of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ConsumerProtocolSubscription(Message):
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")
    NAME = "ConsumerProtocolSubscription"
    API_KEY = None
    TYPE = "data"
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("topics", "[]string", (0, 32767), None, None, None, (), False),
        ("user_data", "bytes", (0, 32767), (0, 32767), None, None, None, False),
        ("owned_partitions", "[]TopicPartition", (1, 32767), None, None, None, (), True),
        ("generation_id", "int32", (2, 32767), None, None, None, -1, True),
        ("rack_id", "string", (3, 32767), (3, 32767), None, None, None, True),
    )

    def __init__(
        self,
        *,
        topics: list[str] = NEW,
        user_data: bytes | None = None,
        owned_partitions: list[TopicPartition] = NEW,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is NEW else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id


class TopicPartition(Message):
    __slots__ = ("topic", "partitions")
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("topic", "string", (1, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (1, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions
