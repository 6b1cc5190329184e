# CreateTopicsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class CreateTopicsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")
    NAME = "CreateTopicsRequest"
    API_KEY = 19
    TYPE = "request"
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("topics", "[]CreatableTopic", (0, 32767), None, None, None, (), False),
        ("timeout_ms", "int32", (0, 32767), None, None, None, 60000, False),
        ("validate_only", "bool", (1, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        topics: list[CreatableTopic] = NEW,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopic(Message):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("num_partitions", "int32", (0, 32767), None, None, None, 0, False),
        ("replication_factor", "int16", (0, 32767), None, None, None, 0, False),
        ("assignments", "[]CreatableReplicaAssignment", (0, 32767), None, None, None, (), False),
        ("configs", "[]CreatableTopicConfig", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = NEW,
        configs: list[CreatableTopicConfig] = NEW,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is NEW else assignments
        self.configs = [] if configs is NEW else configs


class CreatableReplicaAssignment(Message):
    __slots__ = ("partition_index", "broker_ids")
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("broker_ids", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is NEW else broker_ids


class CreatableTopicConfig(Message):
    __slots__ = ("name", "value")
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
