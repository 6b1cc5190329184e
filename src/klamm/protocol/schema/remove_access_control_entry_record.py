# RemoveAccessControlEntryRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, Message


class RemoveAccessControlEntryRecord(Message):
    __slots__ = ("id",)
    NAME = "RemoveAccessControlEntryRecord"
    API_KEY = 19
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
    )

    def __init__(
        self,
        *,
        id: bytes = ZERO_UUID,
    ) -> None:
        self.id = id
