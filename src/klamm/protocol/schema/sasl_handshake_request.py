# SaslHandshakeRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class SaslHandshakeRequest(Message):
    __slots__ = ("mechanism",)
    NAME = "SaslHandshakeRequest"
    API_KEY = 17
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("mechanism", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism
