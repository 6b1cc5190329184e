# RenewDelegationTokenResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class RenewDelegationTokenResponse(Message):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")
    NAME = "RenewDelegationTokenResponse"
    API_KEY = 39
    TYPE = "response"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("expiry_timestamp_ms", "int64", (0, 32767), None, None, None, 0, False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
