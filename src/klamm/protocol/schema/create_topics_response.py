# CreateTopicsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class CreateTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    NAME = "CreateTopicsResponse"
    API_KEY = 19
    TYPE = "response"
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("throttle_time_ms", "int32", (2, 32767), None, None, None, 0, True),
        ("topics", "[]CreatableTopicResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreatableTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class CreatableTopicResult(Message):
    __slots__ = ("name", "topic_id", "error_code", "error_message", "topic_config_error_code", "num_partitions", "replication_factor", "configs")
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("topic_id", "uuid", (7, 32767), None, None, None, ZERO_UUID, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (1, 32767), (0, 32767), None, None, "", True),
        ("topic_config_error_code", "int16", (5, 32767), None, 0, (5, 32767), 0, True),
        ("num_partitions", "int32", (5, 32767), None, None, None, -1, True),
        ("replication_factor", "int16", (5, 32767), None, None, None, -1, True),
        ("configs", "[]CreatableTopicConfigs", (5, 32767), (5, 32767), None, None, (), True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = NEW,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = [] if configs is NEW else configs


class CreatableTopicConfigs(Message):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("name", "string", (5, 32767), None, None, None, "", False),
        ("value", "string", (5, 32767), (5, 32767), None, None, "", False),
        ("read_only", "bool", (5, 32767), None, None, None, False, False),
        ("config_source", "int8", (5, 32767), None, None, None, -1, True),
        ("is_sensitive", "bool", (5, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
