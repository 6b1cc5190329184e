"""InitProducerId for a transactional id: returns a producer id and an epoch that fences earlier producers.

An open transaction is aborted first, and the client has to retry. After Apache Kafka's
`TransactionCoordinator.handleInitProducerId` and `prepareInitProducerIdTransit`.
"""

from __future__ import annotations

from collections.abc import Callable

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.txn.completion import Completions
from klamm.core.txn.endings import fenced
from klamm.core.txn.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    bumped,
    first,
    is_epoch_exhausted,
    rotated,
)
from klamm.core.txn.transaction_state import TransactionState
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.types import Millis, ProducerId

__all__ = ["initialize_producer"]


def initialize_producer(
    store: TransactionStore,
    completions: Completions,
    new_producer_id: Callable[[], ProducerId],
    *,
    request: InitProducerIdRequest,
    ticket: Ticket,
    now: Millis,
) -> Result:
    """Assigns the next epoch of the transactional id, or a new producer id.

    Raises CONCURRENT_TRANSACTIONS, PRODUCER_FENCED, and the errors of `new_producer_id`.
    """
    result = Result()
    transactional_id = request.transactional_id or ""
    transaction = store.find(transactional_id)
    if transaction is not None and transaction.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction is None:
        following = first(transactional_id, new_producer_id(), request.transaction_timeout_ms, now)
    else:
        _check_producer(transaction, request)
        if transaction.state is TransactionState.ONGOING:
            store.write([fenced(transaction, new_producer_id, now)], result)
            completions.follow(result, [transactional_id])
            # Aborting bumps the epoch, and the client's retry bumps it again.
            result.reply(ticket, _response(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, ErrorCode.CONCURRENT_TRANSACTIONS))
            return result
        following = _next_epoch(transaction, new_producer_id, request, now)
    store.write([following], result)
    result.reply(ticket, _response(following.producer_id, following.producer_epoch, ErrorCode.NONE))
    return result


def _check_producer(transaction: Transaction, request: InitProducerIdRequest) -> None:
    """Raises PRODUCER_FENCED if the request contains a producer id that is not valid (KIP-360).

    Valid is the current id, or the previous id with its epochs used up, from a producer that does not know the new one.
    """
    if request.producer_id in (NO_PRODUCER_ID, transaction.producer_id) or (
        request.producer_id == transaction.previous_producer_id and is_epoch_exhausted(request.producer_epoch)
    ):
        return
    raise KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"the producer id of {transaction.transactional_id} is {transaction.producer_id}, not {request.producer_id}",
    )


def _next_epoch(
    transaction: Transaction, new_producer_id: Callable[[], ProducerId], request: InitProducerIdRequest, now: Millis
) -> Transaction:
    is_named = request.producer_id != NO_PRODUCER_ID
    timeout_ms = request.transaction_timeout_ms
    if is_epoch_exhausted(transaction.producer_epoch):
        if not is_named or request.producer_epoch == transaction.producer_epoch:
            return rotated(transaction, new_producer_id(), timeout_ms, is_asked_by_producer=is_named, now=now)
        # The same answer as Kafka's, which returns neither another epoch nor another producer id.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the producer's epochs are used up")
    return bumped(transaction, timeout_ms, request.producer_epoch if is_named else None, now)


def _response(producer_id: int, producer_epoch: int, code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=producer_epoch, error_code=code)
