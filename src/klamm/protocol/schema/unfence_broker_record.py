# UnfenceBrokerRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class UnfenceBrokerRecord(Message):
    __slots__ = ("id", "epoch")
    NAME = "UnfenceBrokerRecord"
    API_KEY = 8
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("id", "int32", (0, 32767), None, None, None, 0, False),
        ("epoch", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch
