# ProducerIdsRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ProducerIdsRecord(Message):
    __slots__ = ("broker_id", "broker_epoch", "next_producer_id")
    NAME = "ProducerIdsRecord"
    API_KEY = 15
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, None, -1, False),
        ("next_producer_id", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        next_producer_id: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.next_producer_id = next_producer_id
