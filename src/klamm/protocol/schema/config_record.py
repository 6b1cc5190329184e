# ConfigRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ConfigRecord(Message):
    __slots__ = ("resource_type", "resource_name", "name", "value")
    NAME = "ConfigRecord"
    API_KEY = 4
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, None, "", False),
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value
