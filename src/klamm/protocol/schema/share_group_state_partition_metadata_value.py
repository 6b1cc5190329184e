# ShareGroupStatePartitionMetadataValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ShareGroupStatePartitionMetadataValue(Message):
    __slots__ = ("initializing_topics", "initialized_topics", "deleting_topics")
    NAME = "ShareGroupStatePartitionMetadataValue"
    API_KEY = 15
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("initializing_topics", "[]TopicPartitionsInfo", (0, 32767), None, None, None, (), False),
        ("initialized_topics", "[]TopicPartitionsInfo", (0, 32767), None, None, None, (), False),
        ("deleting_topics", "[]TopicInfo", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        initializing_topics: list[TopicPartitionsInfo] = NEW,
        initialized_topics: list[TopicPartitionsInfo] = NEW,
        deleting_topics: list[TopicInfo] = NEW,
    ) -> None:
        self.initializing_topics = [] if initializing_topics is NEW else initializing_topics
        self.initialized_topics = [] if initialized_topics is NEW else initialized_topics
        self.deleting_topics = [] if deleting_topics is NEW else deleting_topics


class TopicPartitionsInfo(Message):
    __slots__ = ("topic_id", "topic_name", "partitions")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class TopicInfo(Message):
    __slots__ = ("topic_id", "topic_name")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
