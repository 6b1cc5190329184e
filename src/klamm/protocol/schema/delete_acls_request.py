# DeleteAclsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DeleteAclsRequest(Message):
    __slots__ = ("filters",)
    NAME = "DeleteAclsRequest"
    API_KEY = 31
    TYPE = "request"
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("filters", "[]DeleteAclsFilter", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        filters: list[DeleteAclsFilter] = NEW,
    ) -> None:
        self.filters = [] if filters is NEW else filters


class DeleteAclsFilter(Message):
    __slots__ = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter", "operation", "permission_type")
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("resource_type_filter", "int8", (0, 32767), None, None, None, 0, False),
        ("resource_name_filter", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("pattern_type_filter", "int8", (1, 32767), None, None, None, 3, False),
        ("principal_filter", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("host_filter", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("operation", "int8", (0, 32767), None, None, None, 0, False),
        ("permission_type", "int8", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type
