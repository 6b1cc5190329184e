# AddPartitionsToTxnResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AddPartitionsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")
    NAME = "AddPartitionsToTxnResponse"
    API_KEY = 24
    TYPE = "response"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (4, 32767), None, None, None, 0, True),
        ("results_by_transaction", "[]AddPartitionsToTxnResult", (4, 32767), None, None, None, (), False),
        ("results_by_topic_v3_and_below", "[]AddPartitionsToTxnTopicResult", (0, 3), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = NEW,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is NEW else results_by_transaction
        self.results_by_topic_v3_and_below = [] if results_by_topic_v3_and_below is NEW else results_by_topic_v3_and_below


class AddPartitionsToTxnResult(Message):
    __slots__ = ("transactional_id", "topic_results")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("transactional_id", "string", (4, 32767), None, None, None, "", False),
        ("topic_results", "[]AddPartitionsToTxnTopicResult", (4, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is NEW else topic_results


class AddPartitionsToTxnTopicResult(Message):
    __slots__ = ("name", "results_by_partition")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("results_by_partition", "[]AddPartitionsToTxnPartitionResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] = NEW,
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is NEW else results_by_partition


class AddPartitionsToTxnPartitionResult(Message):
    __slots__ = ("partition_index", "partition_error_code")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("partition_error_code", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code
