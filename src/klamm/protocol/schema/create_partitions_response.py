# CreatePartitionsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class CreatePartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    NAME = "CreatePartitionsResponse"
    API_KEY = 37
    TYPE = "response"
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("results", "[]CreatePartitionsTopicResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


class CreatePartitionsTopicResult(Message):
    __slots__ = ("name", "error_code", "error_message")
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message
