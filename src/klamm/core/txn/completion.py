"""Completes transactions: has the markers written to all partitions, and then writes the Complete record.

Theory of operation. The end of a transaction starts with a Prepare record. Once that record is committed, the outcome
is final, and a request asks the leader of each partition to write a marker. Partitions whose marker is committed are
removed from the list; the others are retried with a back-off without limit, because consumers with isolation level
read_committed wait for the markers. When no partition is left, a Complete record follows, and the transactional id is
free again. After a restart, the Prepare records in the log start this again; a marker that is written twice does no
harm.

The runtime has the marker of a `WriteMarkers` written, and passes back the result of `MarkerWriter.write_markers`. Only
this module knows which partitions already have their markers: the log contains either all or none. After Apache Kafka's
`TransactionMarkerChannelManager` and `TransactionMarkerRequestCompletionHandler`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from klamm.core.coordinator.cluster_topics import NO_TOPICS, ClusterTopics
from klamm.core.coordinator.shard_contract import Result, TimerKey, TimerKind
from klamm.core.txn.events import TransactionRemark
from klamm.core.txn.markers import TransactionMarker, WriteMarkers
from klamm.core.txn.transaction import Transaction, completed
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import Millis, TopicPartition

__all__ = ["MARKERS", "Completions"]

MARKERS: Final = TimerKind("markers")
"""The timer after which the remaining markers are requested again."""
_FIRST_BACKOFF_MS: Final = 100
_MAX_BACKOFF_MS: Final = 5000

_NOT_NEEDED: Final = frozenset(
    {
        # Such a partition can't have records of the producer either.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        # The partition has a later epoch of the producer, so it already has the end of this one.
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class _Ending:
    """One transaction whose markers are being written."""

    __slots__ = ("backoff_ms", "is_waiting_for_outcome", "remaining")

    def __init__(self, remaining: Iterable[TopicPartition]) -> None:
        self.remaining = set(remaining)
        self.backoff_ms = _FIRST_BACKOFF_MS
        self.is_waiting_for_outcome = False


class Completions:
    """The ending transactions of one shard. `coordinator_epoch` is the leader epoch of its partition."""

    def __init__(self, store: TransactionStore, coordinator_epoch: int) -> None:
        self._store = store
        self._coordinator_epoch = coordinator_epoch
        self._endings: dict[str, _Ending] = {}
        self.topics: ClusterTopics = NO_TOPICS

    def follow(self, result: Result, transactional_ids: Iterable[str]) -> None:
        """Has the markers written once the result, which contains the Prepare records, is committed."""
        ids = list(transactional_ids)

        def on_commit(now: Millis) -> Result:
            following = Result(atomic=False)
            self._go_on(ids, following, now)
            return following

        def on_failure(code: ErrorCode, now: Millis) -> Result:
            # Either nothing was appended, or the records were appended and may still be committed.
            later = Result()
            for transactional_id in ids:
                transaction = self._store.find(transactional_id)
                if transaction is not None and transaction.is_ending:
                    self._retry_later(transactional_id, later)
            return later

        result.on_commit = on_commit
        result.on_failure = on_failure

    def partitions_of(self, transaction: Transaction) -> Collection[TopicPartition]:
        """Returns the transaction's partitions that have no marker yet."""
        ending = self._endings.get(transaction.transactional_id) if transaction.is_ending else None
        return transaction.partitions if ending is None else ending.remaining

    def on_timer(self, key: TimerKey) -> Result:
        """Retries the markers, once everything written so far is committed."""
        result = Result()
        self.follow(result, [key.owner_id])
        return result

    def on_outcome(self, request: WriteMarkers, outcomes: Mapping[TopicPartition, ErrorCode], now: Millis) -> Result:
        """Handles the outcome of a marker, by partition: completes the transaction, or retries later."""
        result = Result(atomic=False)
        transactional_id = request.owner_id
        ending = self._endings.get(transactional_id)
        transaction = self._store.find(transactional_id)
        if ending is None or transaction is None or not transaction.is_ending:
            return result
        ending.is_waiting_for_outcome = False
        for partition, code in outcomes.items():
            if code is ErrorCode.NONE or self._is_given_up(transaction, partition, code, result):
                ending.remaining.discard(partition)
        if ErrorCode.TRANSACTION_COORDINATOR_FENCED in outcomes.values():
            # Another coordinator has taken over. It ends the transaction, and this shard will soon be unloaded.
            result.events.append(_remark(transaction, "another coordinator writes the markers"))
        elif ending.remaining:
            self._retry_later(transactional_id, result)
        else:
            self._go_on([transactional_id], result, now)
        return result

    def _go_on(self, transactional_ids: Iterable[str], result: Result, now: Millis) -> None:
        """Starts the next step of each transaction: its markers or its Complete record."""
        to_complete: list[Transaction] = []
        for transactional_id in transactional_ids:
            transaction = self._store.find(transactional_id)
            if transaction is None or not transaction.is_ending:
                self._endings.pop(transactional_id, None)
                continue
            ending = self._endings.get(transactional_id)
            if ending is None:
                ending = self._endings[transactional_id] = _Ending(transaction.partitions)
            if not ending.remaining:
                to_complete.append(completed(transaction, now))
            elif not ending.is_waiting_for_outcome:
                ending.is_waiting_for_outcome = True
                result.requests.append(WriteMarkers(transactional_id, self._marker(transaction, ending)))
        if result.requests:
            # A request must not depend on whether the append of an unrelated record succeeds.
            for transaction in to_complete:
                result.arm(TimerKey(MARKERS, transaction.transactional_id), 0)
        elif to_complete:
            self._store.write(to_complete, result)
            self._finish(result, [transaction.transactional_id for transaction in to_complete])

    def _finish(self, result: Result, transactional_ids: list[str]) -> None:
        note_last_epochs = result.on_append

        def on_append() -> None:
            assert note_last_epochs is not None
            note_last_epochs()
            for transactional_id in transactional_ids:
                del self._endings[transactional_id]

        result.on_append = on_append

        def on_failure(code: ErrorCode, now: Millis) -> Result:
            later = Result()
            for transactional_id in transactional_ids:
                transaction = self._store.find(transactional_id)
                if transaction is not None and transaction.is_ending:
                    self._retry_later(transactional_id, later)
                else:
                    # An earlier batch of the same write has the record. The next transaction needs its own markers.
                    self._endings.pop(transactional_id, None)
            return later

        result.on_failure = on_failure

    def _marker(self, transaction: Transaction, ending: _Ending) -> TransactionMarker:
        return TransactionMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            coordinator_epoch=self._coordinator_epoch,
            is_commit=transaction.is_commit,
            partitions=tuple(sorted(ending.remaining)),
            transaction_version=transaction.client_transaction_version,
            transactional_id=transaction.transactional_id,
        )

    def _is_given_up(
        self, transaction: Transaction, partition: TopicPartition, code: ErrorCode, result: Result
    ) -> bool:
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topic = self.topics.by_name(partition.topic)
            if topic is not None and partition.partition < topic.partition_count:
                return False  # The partition will soon have a leader.
        elif code not in _NOT_NEEDED:
            return False
        result.events.append(_remark(transaction, f"{partition} gets no marker: {code.name}"))
        return True

    def _retry_later(self, transactional_id: str, result: Result) -> None:
        ending = self._endings.get(transactional_id)
        delay_ms = _FIRST_BACKOFF_MS
        if ending is not None:
            delay_ms = ending.backoff_ms
            ending.backoff_ms = min(2 * delay_ms, _MAX_BACKOFF_MS)
        result.arm(TimerKey(MARKERS, transactional_id), delay_ms)


def _remark(transaction: Transaction, text: str) -> TransactionRemark:
    return TransactionRemark(transaction.transactional_id, text, is_warning=True)
