# CreateAclsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class CreateAclsRequest(Message):
    __slots__ = ("creations",)
    NAME = "CreateAclsRequest"
    API_KEY = 30
    TYPE = "request"
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("creations", "[]AclCreation", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        creations: list[AclCreation] = NEW,
    ) -> None:
        self.creations = [] if creations is NEW else creations


class AclCreation(Message):
    __slots__ = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, None, "", False),
        ("resource_pattern_type", "int8", (1, 32767), None, None, None, 3, False),
        ("principal", "string", (0, 32767), None, None, None, "", False),
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("operation", "int8", (0, 32767), None, None, None, 0, False),
        ("permission_type", "int8", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
