"""Aborts transactions that time out, and removes transactional ids that are no longer used.

Timers start both at intervals. They work in steps, so that the event loop is free in between. After Apache Kafka's
`TransactionCoordinator.abortTimedOutTransactions` and `TransactionStateManager.removeExpiredTransactionalIds`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.core.coordinator.shard_contract import Result, TimerKey, TimerKind
from klamm.core.txn.completion import Completions
from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.core.txn.endings import fenced
from klamm.core.txn.events import TransactionRemark
from klamm.core.txn.transaction import Transaction
from klamm.core.txn.transaction_records import tombstone
from klamm.core.txn.transaction_state import EXPIRABLE
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, ProducerId

__all__ = ["ABORT", "Expiry"]

ABORT: Final = TimerKey(TimerKind("abort"))
_EXPIRY: Final = TimerKey(TimerKind("expiry"))
_ABORTED_IN_A_STEP: Final = 100
_LOOKED_AT_IN_A_STEP: Final = 2000


class Expiry:
    """The expiry of transactions and transactional ids of one shard, driven by two timers."""

    def __init__(
        self,
        store: TransactionStore,
        completions: Completions,
        config: TransactionCoordinatorConfig,
        new_producer_id: Callable[[], ProducerId],
    ) -> None:
        self._store = store
        self._completions = completions
        self._config = config
        self._new_producer_id = new_producer_id
        self._ids_to_look_at: list[str] = []

    def start(self, result: Result) -> None:
        """Arms both timers."""
        result.arm(ABORT, self._config.abort_interval_ms)
        result.arm(_EXPIRY, self._config.expiry_interval_ms)

    def abort_timed_out(self, now: Millis) -> Result:
        """Aborts transactions that exceed their timeout, and fences their producers; does one step."""
        result = Result(atomic=False)
        late = [
            transaction
            for transactional_id in self._store.ongoing
            if (transaction := self._store.transactions[transactional_id]).is_timed_out(now)
        ]
        aborted: list[Transaction] = []
        for transaction in late[:_ABORTED_IN_A_STEP]:
            try:
                aborted.append(fenced(transaction, self._new_producer_id, now))
            except KafkaError:
                continue  # No new producer id is available at the moment; the next run tries again.
            text = f"open for more than {transaction.timeout_ms} ms, and aborted"
            result.events.append(TransactionRemark(transaction.transactional_id, text))
        if aborted:
            self._store.write(aborted, result)
            self._completions.follow(result, [transaction.transactional_id for transaction in aborted])
            self._wait_if_it_fails(result)
        has_more = len(late) > _ABORTED_IN_A_STEP and bool(aborted)
        result.arm(ABORT, 0 if has_more else self._config.abort_interval_ms)
        return result

    def _wait_if_it_fails(self, result: Result) -> None:
        """Lets the next step wait for the next check if this one can't be written: it would be refused as well."""
        follow = result.on_failure
        assert follow is not None

        def on_failure(code: ErrorCode, now: Millis) -> Result:
            later = follow(code, now)
            later.arm(ABORT, self._config.abort_interval_ms)
            return later

        result.on_failure = on_failure

    def expire_ids(self, now: Millis) -> Result:
        """Removes transactional ids that were not used for `id_expiration_ms`; does one step."""
        result = Result(atomic=False)
        if not self._ids_to_look_at:
            self._ids_to_look_at = list(self._store.transactions)
        for _ in range(min(_LOOKED_AT_IN_A_STEP, len(self._ids_to_look_at))):
            transaction = self._store.find(self._ids_to_look_at.pop())
            if (
                transaction is not None
                and transaction.state in EXPIRABLE
                and transaction.last_update_timestamp <= now - self._config.id_expiration_ms
            ):
                result.records.append(tombstone(transaction.transactional_id))
        result.arm(_EXPIRY, 0 if self._ids_to_look_at else self._config.expiry_interval_ms)
        return result
