# SnapshotFooterRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class SnapshotFooterRecord(Message):
    __slots__ = ("version",)
    NAME = "SnapshotFooterRecord"
    API_KEY = None
    TYPE = "data"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("version", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        version: int = 0,
    ) -> None:
        self.version = version
