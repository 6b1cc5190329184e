# LegacyOffsetCommitValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class LegacyOffsetCommitValue(Message):
    __slots__ = ("offset", "metadata", "commit_timestamp")
    NAME = "LegacyOffsetCommitValue"
    API_KEY = 0
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("offset", "int64", (0, 0), None, None, None, 0, False),
        ("metadata", "string", (0, 0), None, None, None, "", False),
        ("commit_timestamp", "int64", (0, 0), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        offset: int = 0,
        metadata: str = "",
        commit_timestamp: int = 0,
    ) -> None:
        self.offset = offset
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
