"""Hanging transactions: open in a partition but unknown to every coordinator, so that no coordinator ends them.

A late batch of a producer before KIP-890 can open one. Consumers with read_committed can't read past it. The search is
that of Apache Kafka's `kafka-transactions.sh find-hanging` (KIP-664): it looks up in the coordinators each transaction
that has been open for longer than any transaction may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from klamm.client.errors import RequestRefused
from klamm.client.transaction_listing import DescribedTransaction, ProducerState, TransactionsClient
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.types import TopicPartition

__all__ = ["OpenTransaction", "coordinated_transaction", "hanging_transactions"]

_NOT_OPEN = -1


class OpenTransaction(NamedTuple):
    """A transaction that is open in one partition."""

    partition: TopicPartition
    producer: ProducerState


def hanging_transactions(
    client: TransactionsClient, partitions: Iterable[TopicPartition], *, before_ms: int
) -> list[OpenTransaction]:
    """Returns the hanging transactions whose last write is older than `before_ms`. Raises as `TransactionsClient`.

    Leaves out partitions that were deleted: the search of a large cluster takes long.
    """
    candidates = [
        OpenTransaction(partition, producer)
        for partition in partitions
        for producer in _producers(client, partition)
        if producer.current_txn_start_offset != _NOT_OPEN and producer.last_timestamp < before_ms
    ]
    if not candidates:
        return []
    known = _transactions_of(client, sorted({each.producer.producer_id for each in candidates}))
    return [each for each in candidates if not _is_on_list(known.get(each.producer.producer_id), each.partition)]


def _producers(client: TransactionsClient, partition: TopicPartition) -> Sequence[ProducerState]:
    try:
        return client.producers(partition)
    except RequestRefused as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ()
        raise


def coordinated_transaction(
    client: TransactionsClient, producer: ProducerState, partition: TopicPartition
) -> DescribedTransaction | None:
    """Returns the transaction that a coordinator will end in this partition: it is ongoing, or is being ended there.

    Returns None if the partition's open transaction hangs. Raises as `TransactionsClient`.
    """
    found = _transactions_of(client, [producer.producer_id]).get(producer.producer_id)
    if found is None or found.producer_epoch < producer.producer_epoch:
        return None
    return found if found.transaction_state == "Ongoing" or _is_on_list(found, partition) else None


def _transactions_of(client: TransactionsClient, producer_ids: Sequence[int]) -> dict[int, DescribedTransaction | None]:
    """Returns the coordinators' transactions by producer id, without the producers that no coordinator knows."""
    listed = client.transactional_ids(ListTransactionsRequest(producer_id_filters=list(producer_ids)))
    return {each.producer_id: client.describe(each.transactional_id) for _, each in listed}


def _is_on_list(transaction: DescribedTransaction | None, partition: TopicPartition) -> bool:
    return transaction is not None and any(
        topic.topic == partition.topic and partition.partition in topic.partitions for topic in transaction.topics
    )
