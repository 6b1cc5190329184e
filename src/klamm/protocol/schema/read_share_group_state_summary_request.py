# ReadShareGroupStateSummaryRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ReadShareGroupStateSummaryRequest(Message):
    __slots__ = ("group_id", "topics")
    NAME = "ReadShareGroupStateSummaryRequest"
    API_KEY = 87
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("topics", "[]ReadStateSummaryData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[ReadStateSummaryData] = NEW,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class ReadStateSummaryData(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]PartitionData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class PartitionData(Message):
    __slots__ = ("partition", "leader_epoch")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
