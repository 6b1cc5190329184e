# AlterUserScramCredentialsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AlterUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    NAME = "AlterUserScramCredentialsResponse"
    API_KEY = 51
    TYPE = "response"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("results", "[]AlterUserScramCredentialsResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


class AlterUserScramCredentialsResult(Message):
    __slots__ = ("user", "error_code", "error_message")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("user", "string", (0, 32767), None, None, None, "", False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
