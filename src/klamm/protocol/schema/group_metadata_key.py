# GroupMetadataKey of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class GroupMetadataKey(Message):
    __slots__ = ("group",)
    NAME = "GroupMetadataKey"
    API_KEY = 2
    TYPE = "coordinator-key"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("group", "string", (0, 0), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        group: str = "",
    ) -> None:
        self.group = group
