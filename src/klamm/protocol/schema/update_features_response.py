# UpdateFeaturesResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class UpdateFeaturesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    NAME = "UpdateFeaturesResponse"
    API_KEY = 57
    TYPE = "response"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("results", "[]UpdatableFeatureResult", (0, 1), None, None, None, (), True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is NEW else results


class UpdatableFeatureResult(Message):
    __slots__ = ("feature", "error_code", "error_message")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("feature", "string", (0, 32767), None, None, None, "", False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message
