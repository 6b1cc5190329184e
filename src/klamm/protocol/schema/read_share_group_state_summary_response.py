# ReadShareGroupStateSummaryResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ReadShareGroupStateSummaryResponse(Message):
    __slots__ = ("results",)
    NAME = "ReadShareGroupStateSummaryResponse"
    API_KEY = 87
    TYPE = "response"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("results", "[]ReadStateSummaryResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        results: list[ReadStateSummaryResult] = NEW,
    ) -> None:
        self.results = [] if results is NEW else results


class ReadStateSummaryResult(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]PartitionResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionResult] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class PartitionResult(Message):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("state_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("delivery_complete_count", "int32", (1, 32767), None, None, None, -1, True),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
