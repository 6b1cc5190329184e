# HeartbeatResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class HeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")
    NAME = "HeartbeatResponse"
    API_KEY = 12
    TYPE = "response"
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
