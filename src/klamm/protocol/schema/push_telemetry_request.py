# PushTelemetryRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, Message


class PushTelemetryRequest(Message):
    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")
    NAME = "PushTelemetryRequest"
    API_KEY = 72
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("client_instance_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("subscription_id", "int32", (0, 32767), None, None, None, 0, False),
        ("terminating", "bool", (0, 32767), None, None, None, False, False),
        ("compression_type", "int8", (0, 32767), None, None, None, 0, False),
        ("metrics", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b'',
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics
