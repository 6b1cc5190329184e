# DeleteTopicsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class DeleteTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")
    NAME = "DeleteTopicsResponse"
    API_KEY = 20
    TYPE = "response"
    VERSIONS = (1, 6)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("responses", "[]DeletableTopicResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is NEW else responses


class DeletableTopicResult(Message):
    __slots__ = ("name", "topic_id", "error_code", "error_message")
    VERSIONS = (1, 6)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("name", "string", (0, 32767), (6, 32767), None, None, "", False),
        ("topic_id", "uuid", (6, 32767), None, None, None, ZERO_UUID, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (5, 32767), (5, 32767), None, None, None, True),
    )

    def __init__(
        self,
        *,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
