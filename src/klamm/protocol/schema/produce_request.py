# ProduceRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ProduceRequest(Message):
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")
    NAME = "ProduceRequest"
    API_KEY = 0
    TYPE = "request"
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("transactional_id", "string", (3, 32767), (3, 32767), None, None, None, False),
        ("acks", "int16", (0, 32767), None, None, None, 0, False),
        ("timeout_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("topic_data", "[]TopicProduceData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is NEW else topic_data


class TopicProduceData(Message):
    __slots__ = ("name", "topic_id", "partition_data")
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("name", "string", (0, 12), None, None, None, "", True),
        ("topic_id", "uuid", (13, 32767), None, None, None, ZERO_UUID, True),
        ("partition_data", "[]PartitionProduceData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_data: list[PartitionProduceData] = NEW,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is NEW else partition_data


class PartitionProduceData(Message):
    __slots__ = ("index", "records")
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("index", "int32", (0, 32767), None, None, None, 0, False),
        ("records", "records", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        records: bytes | memoryview | None = None,
    ) -> None:
        self.index = index
        self.records = records
