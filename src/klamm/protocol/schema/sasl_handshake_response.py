# SaslHandshakeResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class SaslHandshakeResponse(Message):
    __slots__ = ("error_code", "mechanisms")
    NAME = "SaslHandshakeResponse"
    API_KEY = 17
    TYPE = "response"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("mechanisms", "[]string", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = NEW,
    ) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is NEW else mechanisms
