# WriteTxnMarkersRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class WriteTxnMarkersRequest(Message):
    __slots__ = ("markers",)
    NAME = "WriteTxnMarkersRequest"
    API_KEY = 27
    TYPE = "request"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("markers", "[]WritableTxnMarker", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarker] = NEW,
    ) -> None:
        self.markers = [] if markers is NEW else markers


class WritableTxnMarker(Message):
    __slots__ = ("producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch", "transaction_version")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("producer_id", "int64", (0, 32767), None, None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, None, 0, False),
        ("transaction_result", "bool", (0, 32767), None, None, None, False, False),
        ("topics", "[]WritableTxnMarkerTopic", (0, 32767), None, None, None, (), False),
        ("coordinator_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("transaction_version", "int8", (2, 32767), None, None, None, 0, True),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = NEW,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is NEW else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WritableTxnMarkerTopic(Message):
    __slots__ = ("name", "partition_indexes")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partition_indexes", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = NEW,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes
