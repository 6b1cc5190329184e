# SaslAuthenticateRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class SaslAuthenticateRequest(Message):
    __slots__ = ("auth_bytes",)
    NAME = "SaslAuthenticateRequest"
    API_KEY = 36
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("auth_bytes", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        auth_bytes: bytes = b'',
    ) -> None:
        self.auth_bytes = auth_bytes
