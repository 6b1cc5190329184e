# ExpireDelegationTokenRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ExpireDelegationTokenRequest(Message):
    __slots__ = ("hmac", "expiry_time_period_ms")
    NAME = "ExpireDelegationTokenRequest"
    API_KEY = 40
    TYPE = "request"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("hmac", "bytes", (0, 32767), None, None, None, b'', False),
        ("expiry_time_period_ms", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        hmac: bytes = b'',
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms
