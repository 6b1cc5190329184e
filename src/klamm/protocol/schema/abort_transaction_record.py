# AbortTransactionRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class AbortTransactionRecord(Message):
    __slots__ = ("reason",)
    NAME = "AbortTransactionRecord"
    API_KEY = 25
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("reason", "string", (0, 32767), (0, 32767), 0, (0, 32767), None, False),
    )

    def __init__(
        self,
        *,
        reason: str | None = None,
    ) -> None:
        self.reason = reason
