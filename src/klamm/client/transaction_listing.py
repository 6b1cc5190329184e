"""Lists and describes transactions, and aborts a hanging one: the APIs ListTransactions, DescribeTransactions,
DescribeProducers and WriteTxnMarkers (KIP-664).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from klamm.client.cluster import Cluster, error_code
from klamm.client.coordinator import TRANSACTION, find_coordinator
from klamm.client.errors import ConnectionFailed, RequestRefused
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_producers_request import DescribeProducersRequest, TopicRequest
from klamm.protocol.schema.describe_producers_response import DescribeProducersResponse, ProducerState
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.schema.describe_transactions_response import DescribeTransactionsResponse
from klamm.protocol.schema.describe_transactions_response import TransactionState as DescribedTransaction
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.protocol.schema.list_transactions_response import TransactionState as ListedTransaction
from klamm.protocol.schema.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.schema.write_txn_markers_response import WriteTxnMarkersResponse
from klamm.protocol.types import BrokerId, TopicPartition

__all__ = ["DescribedTransaction", "ListedTransaction", "ProducerState", "TransactionsClient"]

T = TypeVar("T")

_MARKERS_INTERVAL_S: Final = 0.02


class TransactionsClient:
    """A client of the APIs for transactions. Not thread-safe.

    Each method raises `GaveUp` when retriable errors persist, `RequestRefused` for other errors, and
    `UnsupportedByBroker` for brokers before Kafka 3.0.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def close(self) -> None:
        """Closes the connections to the cluster."""
        self._cluster.close()

    def transactional_ids(self, request: ListTransactionsRequest) -> list[tuple[BrokerId, ListedTransaction]]:
        """Returns the transactional ids that pass the request's filters, each with its coordinator."""
        return self._retried("list transactions", lambda: self._list_once(request))

    def markers_are_due(self) -> bool:
        """Returns whether transactions have been committed or aborted whose markers are not in all partitions yet.

        The coordinator answers EndTxn before it writes the markers. Until they are written, a reader of committed
        records does not see the records of the transaction.
        """
        return bool(self.transactional_ids(ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort"])))

    def wait_for_markers(self, patience_s: float) -> bool:
        """Waits until no markers are due, for at most `patience_s` seconds. Returns whether that came about."""
        deadline_s = time.monotonic() + patience_s
        while self.markers_are_due():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_MARKERS_INTERVAL_S)
        return True

    def describe(self, transactional_id: str) -> DescribedTransaction | None:
        """Returns the description of one transactional id; None if the coordinator does not know it."""
        return self._retried(
            f"describe transactional id {transactional_id!r}", lambda: self._describe_once(transactional_id)
        )

    def producers(self, partition: TopicPartition) -> Sequence[ProducerState]:
        """Returns a partition's active producers. Raises `RequestRefused` also for a partition that does not exist."""
        return self._retried(f"describe the producers of {partition}", lambda: self._producers_once(partition))

    def abort(self, partition: TopicPartition, producer: ProducerState) -> None:
        """Aborts the producer's open transaction in this one partition, without its coordinator."""
        self._retried(f"abort a transaction on {partition}", lambda: self._abort_once(partition, producer))

    def _retried(self, operation: str, once: Callable[[], T | ErrorCode]) -> T:
        retries = Retries(self._cluster.config, operation)
        while True:
            try:
                found = once()
            except ConnectionFailed as error:
                retries.pause(error)
                continue
            if not isinstance(found, ErrorCode):
                return found
            if not found.retriable:
                raise RequestRefused(found, f"the cluster refused to {operation}")
            retries.pause(found.name)

    def _list_once(self, request: ListTransactionsRequest) -> list[tuple[BrokerId, ListedTransaction]] | ErrorCode:
        self._cluster.refresh([])
        found: list[tuple[BrokerId, ListedTransaction]] = []
        for broker in self._cluster.brokers():
            answer = self._cluster.connection_to(broker).request(request, ListTransactionsResponse)
            if answer.error_code:
                return error_code(answer.error_code)
            found += [(broker, each) for each in answer.transaction_states]
        return found

    def _describe_once(self, transactional_id: str) -> DescribedTransaction | ErrorCode | None:
        coordinator = find_coordinator(self._cluster, transactional_id, TRANSACTION)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = self._cluster.connection_to_address(coordinator).request(request, DescribeTransactionsResponse)
        (state,) = answer.transaction_states
        code = error_code(state.error_code)
        if code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        return state if code is ErrorCode.NONE else code

    def _producers_once(self, partition: TopicPartition) -> Sequence[ProducerState] | ErrorCode:
        leader = self._leader(partition)
        if isinstance(leader, ErrorCode):
            return leader
        topic = TopicRequest(name=partition.topic, partition_indexes=[partition.partition])
        request = DescribeProducersRequest(topics=[topic])
        answer = self._cluster.connection_to(leader).request(request, DescribeProducersResponse)
        found = answer.topics[0].partitions[0]
        code = error_code(found.error_code)
        return found.active_producers if code is ErrorCode.NONE else code

    def _abort_once(self, partition: TopicPartition, producer: ProducerState) -> bool | ErrorCode:
        leader = self._leader(partition)
        if isinstance(leader, ErrorCode):
            return leader
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            # -1 means that no coordinator has written here yet; 0 is the lowest epoch of any coordinator.
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        answer = self._cluster.connection_to(leader).request(request, WriteTxnMarkersResponse)
        code = error_code(answer.markers[0].topics[0].partitions[0].error_code)
        return True if code is ErrorCode.NONE else code

    def _leader(self, partition: TopicPartition) -> BrokerId | ErrorCode:
        self._cluster.refresh([partition.topic])
        if not self._cluster.has(partition):
            raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
        leader = self._cluster.leader_of(partition)
        return ErrorCode.LEADER_NOT_AVAILABLE if leader is None else leader.broker
