# DescribeConfigsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeConfigsRequest(Message):
    __slots__ = ("resources", "include_synonyms", "include_documentation")
    NAME = "DescribeConfigsRequest"
    API_KEY = 32
    TYPE = "request"
    VERSIONS = (1, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("resources", "[]DescribeConfigsResource", (0, 32767), None, None, None, (), False),
        ("include_synonyms", "bool", (1, 32767), None, None, None, False, False),
        ("include_documentation", "bool", (3, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] = NEW,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is NEW else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsResource(Message):
    __slots__ = ("resource_type", "resource_name", "configuration_keys")
    VERSIONS = (1, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, None, "", False),
        ("configuration_keys", "[]string", (0, 32767), (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = NEW,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = [] if configuration_keys is NEW else configuration_keys
