# DescribeConfigsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    NAME = "DescribeConfigsResponse"
    API_KEY = 32
    TYPE = "response"
    VERSIONS = (1, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("results", "[]DescribeConfigsResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


class DescribeConfigsResult(Message):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")
    VERSIONS = (1, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("resource_type", "int8", (0, 32767), None, None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, None, "", False),
        ("configs", "[]DescribeConfigsResourceResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = NEW,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW else configs


class DescribeConfigsResourceResult(Message):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type", "documentation")
    VERSIONS = (1, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("read_only", "bool", (0, 32767), None, None, None, False, False),
        ("config_source", "int8", (1, 32767), None, None, None, -1, True),
        ("is_sensitive", "bool", (0, 32767), None, None, None, False, False),
        ("synonyms", "[]DescribeConfigsSynonym", (1, 32767), None, None, None, (), True),
        ("config_type", "int8", (3, 32767), None, None, None, 0, True),
        ("documentation", "string", (3, 32767), (0, 32767), None, None, "", True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = NEW,
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is NEW else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsSynonym(Message):
    __slots__ = ("name", "value", "source")
    VERSIONS = (1, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("name", "string", (1, 32767), None, None, None, "", False),
        ("value", "string", (1, 32767), (0, 32767), None, None, "", False),
        ("source", "int8", (1, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
