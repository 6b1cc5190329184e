# EndTxnResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class EndTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")
    NAME = "EndTxnResponse"
    API_KEY = 26
    TYPE = "response"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("producer_id", "int64", (5, 32767), None, None, None, -1, True),
        ("producer_epoch", "int16", (5, 32767), None, None, None, -1, True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
