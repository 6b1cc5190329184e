# CreatePartitionsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class CreatePartitionsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")
    NAME = "CreatePartitionsRequest"
    API_KEY = 37
    TYPE = "request"
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("topics", "[]CreatePartitionsTopic", (0, 32767), None, None, None, (), False),
        ("timeout_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("validate_only", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] = NEW,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopic(Message):
    __slots__ = ("name", "count", "assignments")
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("count", "int32", (0, 32767), None, None, None, 0, False),
        ("assignments", "[]CreatePartitionsAssignment", (0, 32767), (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = NEW,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = [] if assignments is NEW else assignments


class CreatePartitionsAssignment(Message):
    __slots__ = ("broker_ids",)
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("broker_ids", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        broker_ids: list[int] = NEW,
    ) -> None:
        self.broker_ids = [] if broker_ids is NEW else broker_ids
