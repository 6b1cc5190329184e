# AddPartitionsToTxnRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AddPartitionsToTxnRequest(Message):
    __slots__ = ("transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id", "v3_and_below_producer_epoch", "v3_and_below_topics")
    NAME = "AddPartitionsToTxnRequest"
    API_KEY = 24
    TYPE = "request"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("transactions", "[]AddPartitionsToTxnTransaction", (4, 32767), None, None, None, (), False),
        ("v3_and_below_transactional_id", "string", (0, 3), None, None, None, "", False),
        ("v3_and_below_producer_id", "int64", (0, 3), None, None, None, 0, False),
        ("v3_and_below_producer_epoch", "int16", (0, 3), None, None, None, 0, False),
        ("v3_and_below_topics", "[]AddPartitionsToTxnTopic", (0, 3), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] = NEW,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = NEW,
    ) -> None:
        self.transactions = [] if transactions is NEW else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is NEW else v3_and_below_topics


class AddPartitionsToTxnTransaction(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("transactional_id", "string", (4, 32767), None, None, None, "", False),
        ("producer_id", "int64", (4, 32767), None, None, None, 0, False),
        ("producer_epoch", "int16", (4, 32767), None, None, None, 0, False),
        ("verify_only", "bool", (4, 32767), None, None, None, False, False),
        ("topics", "[]AddPartitionsToTxnTopic", (4, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is NEW else topics


class AddPartitionsToTxnTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions
