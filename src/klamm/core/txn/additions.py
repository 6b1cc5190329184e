"""AddPartitionsToTxn: adds partitions to a transaction, so that each of them gets a marker at the end.

Up to transaction version 1, clients add partitions before they write. In version 2, the broker that receives the write
adds them; for older clients it only verifies that they were added (KIP-890). After Apache Kafka's
`TransactionCoordinator.handleAddPartitionsToTransaction` and `handleVerifyPartitionsInTransaction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.txn.transaction import Transaction, added
from klamm.core.txn.transaction_state import TransactionState
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from klamm.protocol.schema.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from klamm.protocol.types import Millis, PartitionIndex, TopicPartition

__all__ = ["add_partitions", "partitions_of", "result_for", "topics_of"]


def add_partitions(
    store: TransactionStore,
    request: AddPartitionsToTxnTransaction,
    transaction_version: int,
    ticket: Ticket,
    now: Millis,
) -> Result:
    """Adds partitions to a transaction, or only verifies them.

    With `verify_only` nothing is added, and a partition that was not added before gets TRANSACTION_ABORTABLE.
    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    result = Result()
    partitions = partitions_of(request.topics)
    transaction = store.find(request.transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.verify_only:
        _check_producer(transaction, request)
        if transaction.is_ending:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        codes = {
            each: ErrorCode.NONE if each in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        }
        result.reply(ticket, result_for(request.transactional_id, codes))
        return result
    if transaction.is_ending:
        # Checked before the producer, which may already use the id that it gets when this transaction has ended.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    _check_producer(transaction, request)
    if transaction.state is not TransactionState.ONGOING or not transaction.partitions.issuperset(partitions):
        store.write([added(transaction, partitions, transaction_version, now)], result)
    result.reply(ticket, result_for(request.transactional_id, dict.fromkeys(partitions, ErrorCode.NONE)))
    return result


def partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """Returns the request's topics as a list of partitions."""
    return [TopicPartition(topic.name, PartitionIndex(index)) for topic in topics for index in topic.partitions]


def topics_of(partitions: Iterable[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    """Returns the partitions in the form of the request, by topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()]


def result_for(transactional_id: str, codes: Mapping[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResult:
    """Returns the response for one transaction, from the error code of each partition."""
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), code in codes.items():
        by_topic.setdefault(topic, []).append(
            AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=code)
        )
    return AddPartitionsToTxnResult(
        transactional_id=transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in by_topic.items()
        ],
    )


def _check_producer(transaction: Transaction, request: AddPartitionsToTxnTransaction) -> None:
    if transaction.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
