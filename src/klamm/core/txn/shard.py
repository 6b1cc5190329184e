"""The transaction coordinator on one partition of `__transaction_state`: passes each request to the file for it.

After Apache Kafka's `TransactionCoordinator`. Kafka keeps a pending state until a record is replicated, and asks
clients to retry meanwhile. Here, the next decision uses the record as soon as it is appended, and its response waits
until both records are committed. So clients get CONCURRENT_TRANSACTIONS only while markers are being written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import (
    BackgroundTask,
    ClientContext,
    CoordinatorRecord,
    DeletedTopic,
    RequestToSend,
    Result,
    Ticket,
    TimerKey,
)
from klamm.core.txn.additions import add_partitions
from klamm.core.txn.completion import MARKERS, Completions
from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.core.txn.endings import end_transaction
from klamm.core.txn.expiry import ABORT, Expiry
from klamm.core.txn.initializations import initialize_producer
from klamm.core.txn.markers import WriteMarkers
from klamm.core.txn.transaction import EPOCH_BUMP_VERSION
from klamm.core.txn.transaction_description import describe_transactions, list_transactions
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["TransactionShard"]

_ENDINGS_PER_LOAD_STEP: Final = 100
_ADDED_BY_BROKER_FROM: Final = 4
_END_BUMPS_EPOCH_FROM: Final = 5
_ORIGINAL_VERSION: Final = 0


class TransactionShard:
    """The transactional ids of one partition.

    `new_producer_id` returns an unused producer id, or raises KafkaError. `leader_epoch` is the leader epoch of the
    partition; markers contain it, so that markers of an earlier coordinator are refused.
    """

    def __init__(
        self, config: TransactionCoordinatorConfig, new_producer_id: Callable[[], ProducerId], leader_epoch: LeaderEpoch
    ) -> None:
        self.store = TransactionStore()
        self._new_producer_id = new_producer_id
        self._completions = Completions(self.store, leader_epoch)
        self._lapses = Expiry(self.store, self._completions, config, new_producer_id)

    # The log

    def replay(
        self, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: CoordinatorRecord
    ) -> None:
        """Applies one record to the durable state."""
        self.store.replay(record)

    def replay_bytes(self, offset: Offset, producer_id: ProducerId, key: bytes, value: bytes | None) -> bool:
        """Returns False, because there is no fast path for these records."""
        return False

    def replay_end_transaction_marker(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        """Does nothing, because this topic has no transactional records."""

    # Nothing lingers

    def put_aside(self, result: Result, limit_bytes: int) -> bool:
        """Returns False, because no records of this shard linger."""
        return False

    def take_lingering(self) -> list[CoordinatorRecord]:
        """Returns an empty list, because no records of this shard linger."""
        return []

    # Life

    def on_loaded(self, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        """Continues to end the transactions with a Prepare record in the log, and arms the timers."""
        self._completions.topics = topics
        ending = [each.transactional_id for each in self.store.transactions.values() if each.is_ending]
        for start in range(0, len(ending), _ENDINGS_PER_LOAD_STEP):
            result = Result()
            self._completions.follow(result, ending[start : start + _ENDINGS_PER_LOAD_STEP])
            yield result
        result = Result()
        self._lapses.start(result)
        yield result

    def on_metadata_update(self, topics: ClusterTopics, deleted_topics: Sequence[DeletedTopic], now: Millis) -> Result:
        """Keeps the present topics, so that retries skip the markers of deleted topics."""
        self._completions.topics = topics
        return Result()

    def on_unloaded(self) -> Result:
        """Returns an empty result, because no request is ever parked."""
        return Result()

    def handle_timer(self, key: TimerKey, now: Millis) -> Result:
        """Retries markers, or does one step of the expiry of transactions or transactional ids."""
        if key.kind is MARKERS:
            return self._completions.on_timer(key)
        return self._lapses.abort_timed_out(now) if key == ABORT else self._lapses.expire_ids(now)

    def handle_outcome(self, effect: BackgroundTask | RequestToSend, outcome: object, now: Millis) -> Result:
        """Handles the outcome of written markers, by partition; transactions start no other effects."""
        assert isinstance(effect, WriteMarkers)
        assert isinstance(outcome, Mapping)
        return self._completions.on_outcome(effect, outcome, now)

    # Requests

    def handle_init_producer_id(
        self, request: InitProducerIdRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles InitProducerId; see `initializations.py`."""
        return initialize_producer(
            self.store, self._completions, self._new_producer_id, request=request, ticket=ticket, now=now
        )

    def handle_add_partitions(
        self, request: AddPartitionsToTxnTransaction, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles AddPartitionsToTxn; see `additions.py`. Version 4 and later are for transaction version 2."""
        by_broker = context.api_version >= _ADDED_BY_BROKER_FROM
        version = EPOCH_BUMP_VERSION if by_broker else _ORIGINAL_VERSION
        return add_partitions(self.store, request, version, ticket, now)

    def handle_end_txn(self, request: EndTxnRequest, context: ClientContext, ticket: Ticket, now: Millis) -> Result:
        """Handles EndTxn; see `endings.py`. Clients of transaction version 2 use version 5 and later."""
        bumps_epoch = context.api_version >= _END_BUMPS_EPOCH_FROM
        version = EPOCH_BUMP_VERSION if bumps_epoch else _ORIGINAL_VERSION
        return end_transaction(
            self.store,
            self._completions,
            self._new_producer_id,
            request=request,
            transaction_version=version,
            ticket=ticket,
            now=now,
        )

    def handle_describe_transactions(
        self, request: DescribeTransactionsRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles DescribeTransactions; see `transaction_description.py`."""
        return describe_transactions(self.store, self._completions, request, ticket)

    def handle_list_transactions(
        self,
        request: ListTransactionsRequest,
        context: ClientContext,
        ticket: Ticket,
        now: Millis,
        among: Sequence[str] | None = None,
    ) -> Result:
        """Handles ListTransactions; see `transaction_description.py`."""
        return list_transactions(self.store, request, ticket, now, among)
