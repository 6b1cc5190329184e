# DescribeClientQuotasRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeClientQuotasRequest(Message):
    __slots__ = ("components", "strict")
    NAME = "DescribeClientQuotasRequest"
    API_KEY = 48
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("components", "[]ComponentData", (0, 32767), None, None, None, (), False),
        ("strict", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        components: list[ComponentData] = NEW,
        strict: bool = False,
    ) -> None:
        self.components = [] if components is NEW else components
        self.strict = strict


class ComponentData(Message):
    __slots__ = ("entity_type", "match_type", "match")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("entity_type", "string", (0, 32767), None, None, None, "", False),
        ("match_type", "int8", (0, 32767), None, None, None, 0, False),
        ("match", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match
