# RequestHeader of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class RequestHeader(Message):
    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id")
    NAME = "RequestHeader"
    API_KEY = None
    TYPE = "header"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("request_api_key", "int16", (0, 32767), None, None, None, 0, False),
        ("request_api_version", "int16", (0, 32767), None, None, None, 0, False),
        ("correlation_id", "int32", (0, 32767), None, None, None, 0, False),
        ("client_id", "string16", (1, 32767), (1, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
