# TransactionLogKey of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class TransactionLogKey(Message):
    __slots__ = ("transactional_id",)
    NAME = "TransactionLogKey"
    API_KEY = 0
    TYPE = "coordinator-key"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("transactional_id", "string", (0, 0), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
