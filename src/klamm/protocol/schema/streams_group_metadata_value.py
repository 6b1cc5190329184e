# StreamsGroupMetadataValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash", "validated_topology_epoch", "last_assignment_configs")
    NAME = "StreamsGroupMetadataValue"
    API_KEY = 17
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("metadata_hash", "int64", (0, 32767), None, None, None, 0, False),
        ("validated_topology_epoch", "int32", (0, 32767), None, 0, (0, 32767), -1, False),
        ("last_assignment_configs", "[]LastAssignmentConfig", (0, 32767), (0, 32767), 1, (0, 32767), (), False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
        validated_topology_epoch: int = -1,
        last_assignment_configs: list[LastAssignmentConfig] | None = NEW,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.last_assignment_configs = [] if last_assignment_configs is NEW else last_assignment_configs


class LastAssignmentConfig(Message):
    __slots__ = ("key", "value")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("key", "string", (0, 32767), None, None, None, "", False),
        ("value", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value
