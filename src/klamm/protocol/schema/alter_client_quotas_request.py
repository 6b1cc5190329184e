# AlterClientQuotasRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AlterClientQuotasRequest(Message):
    __slots__ = ("entries", "validate_only")
    NAME = "AlterClientQuotasRequest"
    API_KEY = 49
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("entries", "[]EntryData", (0, 32767), None, None, None, (), False),
        ("validate_only", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        entries: list[EntryData] = NEW,
        validate_only: bool = False,
    ) -> None:
        self.entries = [] if entries is NEW else entries
        self.validate_only = validate_only


class EntryData(Message):
    __slots__ = ("entity", "ops")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("entity", "[]EntityData", (0, 32767), None, None, None, (), False),
        ("ops", "[]OpData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] = NEW,
        ops: list[OpData] = NEW,
    ) -> None:
        self.entity = [] if entity is NEW else entity
        self.ops = [] if ops is NEW else ops


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


class OpData(Message):
    __slots__ = ("key", "value", "remove")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("key", "string", (0, 32767), None, None, None, "", False),
        ("value", "float64", (0, 32767), None, None, None, 0.0, False),
        ("remove", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove
