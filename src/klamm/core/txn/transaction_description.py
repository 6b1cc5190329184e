"""DescribeTransactions and ListTransactions (KIP-664): describe and list transactional ids.

After Apache Kafka's `TransactionCoordinator.handleDescribeTransactions` and
`TransactionStateManager.listTransactionStates`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.txn.completion import Completions
from klamm.core.txn.transaction import Transaction
from klamm.core.txn.transaction_state import STATE_NAMES, TransactionState
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.schema.describe_transactions_response import DescribeTransactionsResponse, TopicData
from klamm.protocol.schema.describe_transactions_response import TransactionState as DescribedTransaction
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.protocol.schema.list_transactions_response import TransactionState as ListedTransaction
from klamm.protocol.types import Millis

__all__ = ["compile_pattern", "describe_transactions", "list_transactions", "unknown_states"]

_STATES_BY_NAME: Final = {name: state for state, name in STATE_NAMES.items()}


def describe_transactions(
    store: TransactionStore, completions: Completions, request: DescribeTransactionsRequest, ticket: Ticket
) -> Result:
    """Describes transactional ids; an unknown id gets TRANSACTIONAL_ID_NOT_FOUND.

    For an ending transaction, only the partitions without a marker are returned.
    """
    result = Result()
    states = [_described(each, store.find(each), completions) for each in request.transactional_ids]
    result.reply(ticket, DescribeTransactionsResponse(transaction_states=states))
    return result


def list_transactions(
    store: TransactionStore,
    request: ListTransactionsRequest,
    ticket: Ticket,
    now: Millis,
    among: Iterable[str] | None = None,
) -> Result:
    """Lists the transactional ids that match all filters; an empty filter matches all.

    If `among` is given, only these ids are listed, without those that no longer exist. Raises
    INVALID_REGULAR_EXPRESSION.
    """
    result = Result()
    states = {_STATES_BY_NAME[name] for name in request.state_filters if name in _STATES_BY_NAME}
    producer_ids = set(request.producer_id_filters)
    pattern = compile_pattern(request.transactional_id_pattern)
    duration_ms = request.duration_filter
    known = store.transactions
    found = [
        ListedTransaction(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            transaction_state=STATE_NAMES[each.state],
        )
        for each in (known.values() if among is None else filter(None, map(known.get, among)))
        if (not producer_ids or each.producer_id in producer_ids)
        and (not request.state_filters or each.state in states)
        and (duration_ms < 0 or now - each.start_timestamp > duration_ms)
        and (pattern is None or pattern.fullmatch(each.transactional_id) is not None)
        and each.state is not TransactionState.DEAD
    ]
    result.reply(ticket, ListTransactionsResponse(transaction_states=found))
    return result


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Returns the names in the state filter that are not names of states, each once."""
    return list(dict.fromkeys(name for name in request.state_filters if name not in _STATES_BY_NAME))


def compile_pattern(pattern: str | None) -> Any:
    """Compiles a pattern with RE2, whose matching time is linear for any pattern; returns None for an empty pattern.

    Raises INVALID_REGULAR_EXPRESSION, also for syntax that only Java's regular expressions have.
    """
    if not pattern:
        return None
    re2 = import_module("re2")  # imported here, because few brokers need it
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transaction ID pattern `{pattern}` is not a valid regular expression: {text}.",
        ) from None


def _described(
    transactional_id: str, transaction: Transaction | None, completions: Completions
) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(error_code=ErrorCode.INVALID_REQUEST)
    if transaction is None or transaction.state is TransactionState.DEAD:
        return DescribedTransaction(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(completions.partitions_of(transaction)):
        by_topic.setdefault(topic, []).append(partition)
    return DescribedTransaction(
        transactional_id=transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_state=STATE_NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_timestamp,
        topics=[TopicData(topic=name, partitions=indexes) for name, indexes in by_topic.items()],
    )
