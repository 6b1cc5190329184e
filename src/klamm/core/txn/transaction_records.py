"""Creates and reads the records of `__transaction_state`; the latest record of a transactional id is its state.

After Apache Kafka's `TransactionLog`.
"""

from __future__ import annotations

from typing import Final

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.txn.transaction import Transaction
from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.schema.transaction_log_key import TransactionLogKey
from klamm.protocol.schema.transaction_log_value import PartitionsSchema, TransactionLogValue
from klamm.protocol.types import Millis, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

__all__ = ["tombstone", "transaction_of", "transaction_record"]

_VALUE_VERSION: Final = 1
"""Version 1 has the tagged fields that transaction version 2 needs (KIP-890)."""


def transaction_record(transaction: Transaction) -> CoordinatorRecord:
    """Returns the record with the durable state of the transaction."""
    partitions: list[PartitionsSchema] | None = None
    if transaction.state is not TransactionState.EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(partition)
        partitions = [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in by_topic.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.last_update_timestamp,
        transaction_start_timestamp_ms=transaction.start_timestamp,
        client_transaction_version=transaction.client_transaction_version,
    )
    return CoordinatorRecord(TransactionLogKey(transactional_id=transaction.transactional_id), value, _VALUE_VERSION)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """Returns the record that removes a transactional id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None, -1)


def transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Returns the transaction in a record. Raises ValueError for a state that doesn't exist."""
    state = TransactionState(value.transaction_status)
    topics = value.transaction_partitions or () if state is not TransactionState.EMPTY else ()
    return Transaction(
        transactional_id=transactional_id,
        producer_id=ProducerId(value.producer_id),
        producer_epoch=ProducerEpoch(value.producer_epoch),
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, PartitionIndex(index)) for topic in topics for index in topic.partition_ids
        ),
        start_timestamp=Millis(value.transaction_start_timestamp_ms),
        last_update_timestamp=Millis(value.transaction_last_update_timestamp_ms),
        previous_producer_id=ProducerId(value.previous_producer_id),
        next_producer_id=ProducerId(value.next_producer_id),
        client_transaction_version=value.client_transaction_version,
    )
