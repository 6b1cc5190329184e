# InitProducerIdResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class InitProducerIdResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")
    NAME = "InitProducerIdResponse"
    API_KEY = 22
    TYPE = "response"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("producer_id", "int64", (0, 32767), None, None, None, -1, False),
        ("producer_epoch", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
