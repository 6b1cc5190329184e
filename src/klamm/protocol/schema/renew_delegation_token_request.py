# RenewDelegationTokenRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class RenewDelegationTokenRequest(Message):
    __slots__ = ("hmac", "renew_period_ms")
    NAME = "RenewDelegationTokenRequest"
    API_KEY = 39
    TYPE = "request"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("hmac", "bytes", (0, 32767), None, None, None, b'', False),
        ("renew_period_ms", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        hmac: bytes = b'',
        renew_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms
