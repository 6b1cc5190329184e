# WriteShareGroupStateResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class WriteShareGroupStateResponse(Message):
    __slots__ = ("results",)
    NAME = "WriteShareGroupStateResponse"
    API_KEY = 85
    TYPE = "response"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("results", "[]WriteStateResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        results: list[WriteStateResult] = NEW,
    ) -> None:
        self.results = [] if results is NEW else results


class WriteStateResult(Message):
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
    __slots__ = ("partition", "error_code", "error_message")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
