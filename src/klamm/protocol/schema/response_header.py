# ResponseHeader of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ResponseHeader(Message):
    __slots__ = ("correlation_id",)
    NAME = "ResponseHeader"
    API_KEY = None
    TYPE = "header"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("correlation_id", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        correlation_id: int = 0,
    ) -> None:
        self.correlation_id = correlation_id
