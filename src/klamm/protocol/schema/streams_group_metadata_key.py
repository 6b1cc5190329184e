# StreamsGroupMetadataKey of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class StreamsGroupMetadataKey(Message):
    __slots__ = ("group_id",)
    NAME = "StreamsGroupMetadataKey"
    API_KEY = 17
    TYPE = "coordinator-key"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("group_id", "string", (0, 0), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id
