# BeginTransactionRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class BeginTransactionRecord(Message):
    __slots__ = ("name",)
    NAME = "BeginTransactionRecord"
    API_KEY = 23
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), (0, 32767), 0, (0, 32767), None, False),
    )

    def __init__(
        self,
        *,
        name: str | None = None,
    ) -> None:
        self.name = name
