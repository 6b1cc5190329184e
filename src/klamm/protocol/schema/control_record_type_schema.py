# ControlRecordTypeSchema of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ControlRecordTypeSchema(Message):
    __slots__ = ("type",)
    NAME = "ControlRecordTypeSchema"
    API_KEY = None
    TYPE = "data"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("type", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        type: int = 0,
    ) -> None:
        self.type = type
