# SyncGroupResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class SyncGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")
    NAME = "SyncGroupResponse"
    API_KEY = 14
    TYPE = "response"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("protocol_type", "string", (5, 32767), (5, 32767), None, None, None, True),
        ("protocol_name", "string", (5, 32767), (5, 32767), None, None, None, True),
        ("assignment", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b'',
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
