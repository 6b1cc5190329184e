# ConsumerGroupPartitionMetadataValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ConsumerGroupPartitionMetadataValue(Message):
    __slots__ = ("topics",)
    NAME = "ConsumerGroupPartitionMetadataValue"
    API_KEY = 4
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topics", "[]TopicMetadata", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topics: list[TopicMetadata] = NEW,
    ) -> None:
        self.topics = [] if topics is NEW else topics


class TopicMetadata(Message):
    __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("num_partitions", "int32", (0, 32767), None, None, None, 0, False),
        ("partition_metadata", "[]PartitionMetadata", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: list[PartitionMetadata] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = [] if partition_metadata is NEW else partition_metadata


class PartitionMetadata(Message):
    __slots__ = ("partition", "racks")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("racks", "[]string", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        racks: list[str] = NEW,
    ) -> None:
        self.partition = partition
        self.racks = [] if racks is NEW else racks
