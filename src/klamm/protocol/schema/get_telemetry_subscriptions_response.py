# GetTelemetrySubscriptionsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class GetTelemetrySubscriptionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "client_instance_id", "subscription_id", "accepted_compression_types", "push_interval_ms", "telemetry_max_bytes", "delta_temporality", "requested_metrics")
    NAME = "GetTelemetrySubscriptionsResponse"
    API_KEY = 71
    TYPE = "response"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("client_instance_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("subscription_id", "int32", (0, 32767), None, None, None, 0, False),
        ("accepted_compression_types", "[]int8", (0, 32767), None, None, None, (), False),
        ("push_interval_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("telemetry_max_bytes", "int32", (0, 32767), None, None, None, 0, False),
        ("delta_temporality", "bool", (0, 32767), None, None, None, False, False),
        ("requested_metrics", "[]string", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = NEW,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = [] if accepted_compression_types is NEW else accepted_compression_types
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = [] if requested_metrics is NEW else requested_metrics
