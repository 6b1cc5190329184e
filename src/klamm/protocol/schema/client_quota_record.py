# ClientQuotaRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ClientQuotaRecord(Message):
    __slots__ = ("entity", "key", "value", "remove")
    NAME = "ClientQuotaRecord"
    API_KEY = 14
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("entity", "[]EntityData", (0, 32767), None, None, None, (), False),
        ("key", "string", (0, 32767), None, None, None, "", False),
        ("value", "float64", (0, 32767), None, None, None, 0.0, False),
        ("remove", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] = NEW,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.entity = [] if entity is NEW else entity
        self.key = key
        self.value = value
        self.remove = remove


class EntityData(Message):
    __slots__ = ("entity_type", "entity_name")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
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
