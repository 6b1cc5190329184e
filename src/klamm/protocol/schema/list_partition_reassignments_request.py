# ListPartitionReassignmentsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ListPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "topics")
    NAME = "ListPartitionReassignmentsRequest"
    API_KEY = 46
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("timeout_ms", "int32", (0, 32767), None, None, None, 60000, False),
        ("topics", "[]ListPartitionReassignmentsTopics", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class ListPartitionReassignmentsTopics(Message):
    __slots__ = ("name", "partition_indexes")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
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
