# WriteTxnMarkersResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class WriteTxnMarkersResponse(Message):
    __slots__ = ("markers",)
    NAME = "WriteTxnMarkersResponse"
    API_KEY = 27
    TYPE = "response"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("markers", "[]WritableTxnMarkerResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] = NEW,
    ) -> None:
        self.markers = [] if markers is NEW else markers


class WritableTxnMarkerResult(Message):
    __slots__ = ("producer_id", "topics")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("producer_id", "int64", (0, 32767), None, None, None, 0, False),
        ("topics", "[]WritableTxnMarkerTopicResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] = NEW,
    ) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is NEW else topics


class WritableTxnMarkerTopicResult(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]WritableTxnMarkerPartitionResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[WritableTxnMarkerPartitionResult] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class WritableTxnMarkerPartitionResult(Message):
    __slots__ = ("partition_index", "error_code")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
