# AlterClientQuotasResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AlterClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "entries")
    NAME = "AlterClientQuotasResponse"
    API_KEY = 49
    TYPE = "response"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("entries", "[]EntryData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[EntryData] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is NEW else entries


class EntryData(Message):
    __slots__ = ("error_code", "error_message", "entity")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("entity", "[]EntityData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[EntityData] = NEW,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is NEW else entity


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
