# RemoveDelegationTokenRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class RemoveDelegationTokenRecord(Message):
    __slots__ = ("token_id",)
    NAME = "RemoveDelegationTokenRecord"
    API_KEY = 26
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("token_id", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        token_id: str = "",
    ) -> None:
        self.token_id = token_id
