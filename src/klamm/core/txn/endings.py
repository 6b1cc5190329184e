"""EndTxn: decides the outcome of a transaction, for its producer or, if that is too late or fenced, without it.

With transaction version 2 (EndTxn from version 5 on, KIP-890) every end bumps the epoch. A request with the current
epoch ends another transaction; a request with the previous epoch is a retry:

    state            abort, retry   abort, current     commit, retry   commit, current
    Empty            fenced         aborted, bumped    fenced          invalid state
    CompleteAbort    done           aborted, bumped    invalid state   invalid state
    CompleteCommit   invalid state  aborted, bumped    done            invalid state

In older versions, a retry has the same epoch. A transaction that has not begun can't be ended, and one that has ended
can be ended again with the same outcome. After Apache Kafka's `TransactionCoordinator.endTransaction` and
`endTransactionWithTV1`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.txn.completion import Completions
from klamm.core.txn.transaction import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    completed,
    ended,
    is_epoch_exhausted,
)
from klamm.core.txn.transaction_state import TransactionState
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.types import Millis, ProducerId

__all__ = ["end_transaction", "fenced"]

_LAST_EPOCH_OF_A_CLIENT: Final = 32_766
_COMPLETE: Final = {
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.COMPLETE_ABORT: False,
}
"""Whether a completed transaction was committed."""


def end_transaction(
    store: TransactionStore,
    completions: Completions,
    new_producer_id: Callable[[], ProducerId],
    *,
    request: EndTxnRequest,
    transaction_version: int,
    ticket: Ticket,
    now: Millis,
) -> Result:
    """Commits or aborts a transaction.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, and the errors of
    `new_producer_id`.
    """
    result = Result()
    transaction = store.find(request.transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    bumps_epoch = transaction_version >= EPOCH_BUMP_VERSION
    is_done = _check_bumping(transaction, request) if bumps_epoch else _check_original(transaction, request)
    if is_done:
        result.reply(ticket, _response(transaction, bumps_epoch=bumps_epoch))
        return result
    next_producer_id = NO_PRODUCER_ID
    if bumps_epoch and is_epoch_exhausted(transaction.producer_epoch):
        next_producer_id = new_producer_id()
    following = ended(
        transaction,
        is_commit=request.committed,
        transaction_version=transaction_version,
        next_producer_id=next_producer_id,
        now=now,
    )
    store.write([following], result)
    completions.follow(result, [request.transactional_id])
    # The client may continue as soon as the outcome is committed, with the id and epoch that it has after the end.
    result.reply(ticket, _response(completed(following, now), bumps_epoch=bumps_epoch))
    return result


def fenced(transaction: Transaction, new_producer_id: Callable[[], ProducerId], now: Millis) -> Transaction:
    """Returns an open transaction as aborted without its producer, whose epoch is fenced.

    Raises the errors of `new_producer_id`.
    """
    next_producer_id = NO_PRODUCER_ID
    if is_epoch_exhausted(transaction.producer_epoch):
        next_producer_id = new_producer_id()
    return ended(
        transaction,
        is_commit=False,
        transaction_version=EPOCH_BUMP_VERSION,
        next_producer_id=next_producer_id,
        now=now,
    )


def _check_original(transaction: Transaction, request: EndTxnRequest) -> bool:
    """Returns whether the transaction already ended in this way; raises if the request is not allowed."""
    if transaction.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        return False
    if _COMPLETE.get(transaction.state) is request.committed:
        return True
    raise _invalid_state(transaction, request)


def _check_bumping(transaction: Transaction, request: EndTxnRequest) -> bool:
    """Returns whether the transaction already ended in this way; raises if the request is not allowed."""
    if transaction.is_ending:
        # Checked first: the producer may already use the id that it gets when this transaction has ended.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    epoch = request.producer_epoch
    is_retry_with_old_id = (
        transaction.previous_producer_id == request.producer_id
        and epoch == _LAST_EPOCH_OF_A_CLIENT
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != request.producer_id and not is_retry_with_old_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_retry = is_retry_with_old_id or transaction.producer_epoch == epoch + 1
    if epoch != transaction.producer_epoch and not (is_retry and transaction.state in _COMPLETE):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        return False
    if is_retry:
        if _COMPLETE[transaction.state] is request.committed:
            return True
    elif not request.committed and transaction.state in (TransactionState.EMPTY, *_COMPLETE):
        return False
    raise _invalid_state(transaction, request)


def _invalid_state(transaction: Transaction, request: EndTxnRequest) -> KafkaError:
    what = "commit" if request.committed else "abort"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"{transaction.transactional_id} is in state {transaction.state.name}: there is nothing to {what}",
    )


def _response(transaction: Transaction, *, bumps_epoch: bool) -> EndTxnResponse:
    if not bumps_epoch:
        return EndTxnResponse(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    return EndTxnResponse(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
