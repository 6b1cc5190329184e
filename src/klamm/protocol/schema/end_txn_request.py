# EndTxnRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class EndTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")
    NAME = "EndTxnRequest"
    API_KEY = 26
    TYPE = "request"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, None, "", False),
        ("producer_id", "int64", (0, 32767), None, None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, None, 0, False),
        ("committed", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed
