# EnvelopeRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class EnvelopeRequest(Message):
    __slots__ = ("request_data", "request_principal", "client_host_address")
    NAME = "EnvelopeRequest"
    API_KEY = 58
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("request_data", "bytes", (0, 32767), None, None, None, b'', False),
        ("request_principal", "bytes", (0, 32767), (0, 32767), None, None, b'', False),
        ("client_host_address", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        request_data: bytes = b'',
        request_principal: bytes | None = b'',
        client_host_address: bytes = b'',
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address
