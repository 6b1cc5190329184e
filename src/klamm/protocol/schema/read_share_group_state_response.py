# ReadShareGroupStateResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ReadShareGroupStateResponse(Message):
    __slots__ = ("results",)
    NAME = "ReadShareGroupStateResponse"
    API_KEY = 84
    TYPE = "response"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("results", "[]ReadStateResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        results: list[ReadStateResult] = NEW,
    ) -> None:
        self.results = [] if results is NEW else results


class ReadStateResult(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (0, 0)
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
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("state_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("state_batches", "[]StateBatch", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[StateBatch] = NEW,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is NEW else state_batches


class StateBatch(Message):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("first_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("delivery_state", "int8", (0, 32767), None, None, None, 0, False),
        ("delivery_count", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count
