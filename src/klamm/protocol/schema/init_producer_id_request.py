# InitProducerIdRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class InitProducerIdRequest(Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch")
    NAME = "InitProducerIdRequest"
    API_KEY = 22
    TYPE = "request"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("transactional_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("transaction_timeout_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("producer_id", "int64", (3, 32767), None, None, None, -1, False),
        ("producer_epoch", "int16", (3, 32767), None, None, None, -1, False),
    )

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
