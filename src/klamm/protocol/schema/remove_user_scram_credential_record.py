# RemoveUserScramCredentialRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class RemoveUserScramCredentialRecord(Message):
    __slots__ = ("name", "mechanism")
    NAME = "RemoveUserScramCredentialRecord"
    API_KEY = 22
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("mechanism", "int8", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
