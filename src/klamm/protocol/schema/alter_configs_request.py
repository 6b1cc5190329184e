# AlterConfigsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AlterConfigsRequest(Message):
    __slots__ = ("resources", "validate_only")
    NAME = "AlterConfigsRequest"
    API_KEY = 33
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
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
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
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
    __slots__ = ("name", "value")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
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
