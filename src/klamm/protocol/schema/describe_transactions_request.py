# DescribeTransactionsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeTransactionsRequest(Message):
    __slots__ = ("transactional_ids",)
    NAME = "DescribeTransactionsRequest"
    API_KEY = 65
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("transactional_ids", "[]string", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_ids: list[str] = NEW,
    ) -> None:
        self.transactional_ids = [] if transactional_ids is NEW else transactional_ids
