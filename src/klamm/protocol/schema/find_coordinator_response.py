# FindCoordinatorResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class FindCoordinatorResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")
    NAME = "FindCoordinatorResponse"
    API_KEY = 10
    TYPE = "response"
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("error_code", "int16", (0, 3), None, None, None, 0, False),
        ("error_message", "string", (1, 3), (1, 3), None, None, "", True),
        ("node_id", "int32", (0, 3), None, None, None, 0, False),
        ("host", "string", (0, 3), None, None, None, "", False),
        ("port", "int32", (0, 3), None, None, None, 0, False),
        ("coordinators", "[]Coordinator", (4, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is NEW else coordinators


class Coordinator(Message):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("key", "string", (4, 32767), None, None, None, "", False),
        ("node_id", "int32", (4, 32767), None, None, None, 0, False),
        ("host", "string", (4, 32767), None, None, None, "", False),
        ("port", "int32", (4, 32767), None, None, None, 0, False),
        ("error_code", "int16", (4, 32767), None, None, None, 0, False),
        ("error_message", "string", (4, 32767), (4, 32767), None, None, "", True),
    )

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message
