# DescribeClientQuotasResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")
    NAME = "DescribeClientQuotasResponse"
    API_KEY = 48
    TYPE = "response"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("entries", "[]EntryData", (0, 32767), (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | None = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = [] if entries is NEW else entries


class EntryData(Message):
    __slots__ = ("entity", "values")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("entity", "[]EntityData", (0, 32767), None, None, None, (), False),
        ("values", "[]ValueData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] = NEW,
        values: list[ValueData] = NEW,
    ) -> None:
        self.entity = [] if entity is NEW else entity
        self.values = [] if values is NEW else values


class EntityData(Message):
    __slots__ = ("entity_type", "entity_name")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("entity_type", "string", (0, 32767), None, None, None, "", False),
        ("entity_name", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Message):
    __slots__ = ("key", "value")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("key", "string", (0, 32767), None, None, None, "", False),
        ("value", "float64", (0, 32767), None, None, None, 0.0, False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value
