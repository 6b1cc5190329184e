# ListTransactionsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ListTransactionsRequest(Message):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")
    NAME = "ListTransactionsRequest"
    API_KEY = 66
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("state_filters", "[]string", (0, 32767), None, None, None, (), False),
        ("producer_id_filters", "[]int64", (0, 32767), None, None, None, (), False),
        ("duration_filter", "int64", (1, 32767), None, None, None, -1, False),
        ("transactional_id_pattern", "string", (2, 32767), (2, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        state_filters: list[str] = NEW,
        producer_id_filters: list[int] = NEW,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is NEW else state_filters
        self.producer_id_filters = [] if producer_id_filters is NEW else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern
