# ListTransactionsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ListTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")
    NAME = "ListTransactionsResponse"
    API_KEY = 66
    TYPE = "response"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("unknown_state_filters", "[]string", (0, 32767), None, None, None, (), False),
        ("transaction_states", "[]TransactionState", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = NEW,
        transaction_states: list[TransactionState] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is NEW else unknown_state_filters
        self.transaction_states = [] if transaction_states is NEW else transaction_states


class TransactionState(Message):
    __slots__ = ("transactional_id", "producer_id", "transaction_state")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, None, "", False),
        ("producer_id", "int64", (0, 32767), None, None, None, 0, False),
        ("transaction_state", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state
