# IncrementalAlterConfigsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class IncrementalAlterConfigsRequest(Message):
    __slots__ = ("resources", "validate_only")
    NAME = "IncrementalAlterConfigsRequest"
    API_KEY = 44
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("resources", "[]AlterConfigsResource", (0, 32767), None, None, None, (), False),
        ("validate_only", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] = NEW,
        validate_only: bool = False,
    ) -> None:
        self.resources = [] if resources is NEW else resources
        self.validate_only = validate_only


class AlterConfigsResource(Message):
    __slots__ = ("resource_type", "resource_name", "configs")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, None, "", False),
        ("configs", "[]AlterableConfig", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] = NEW,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW else configs


class AlterableConfig(Message):
    __slots__ = ("name", "config_operation", "value")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("config_operation", "int8", (0, 32767), None, None, None, 0, False),
        ("value", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        config_operation: int = 0,
        value: str | None = "",
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value
