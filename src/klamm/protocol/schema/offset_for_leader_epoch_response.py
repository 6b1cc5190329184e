# OffsetForLeaderEpochResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class OffsetForLeaderEpochResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    NAME = "OffsetForLeaderEpochResponse"
    API_KEY = 23
    TYPE = "response"
    VERSIONS = (2, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (2, 32767), None, None, None, 0, True),
        ("topics", "[]OffsetForLeaderTopicResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class OffsetForLeaderTopicResult(Message):
    __slots__ = ("topic", "partitions")
    VERSIONS = (2, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("topic", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]EpochEndOffset", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[EpochEndOffset] = NEW,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class EpochEndOffset(Message):
    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")
    VERSIONS = (2, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (1, 32767), None, None, None, -1, True),
        ("end_offset", "int64", (0, 32767), None, None, None, -1, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset
