"""ListTransactions: returns the transactional ids that this broker coordinates (KIP-664).

Versions 0 to 2: v1 a filter on the duration (KIP-994), v2 a pattern of transactional ids (KIP-1152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.time_slices import Work, answer_of
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.txn.transaction_state import STATE_NAMES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_IDS_AT_ONCE: Final = 500
"""Maximum number of transactional ids listed in one step: about a millisecond."""
_NAMES: Final = frozenset(STATE_NAMES.values())


def handle(context: RequestContext, request: ListTransactionsRequest) -> Work[ListTransactionsResponse]:
    """Lists the transactional ids that pass the filters. The pattern uses RE2's syntax.

    Raises INVALID_REGULAR_EXPRESSION for an invalid pattern.
    """
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    transactions = context.broker.transactions
    slices = transactions.transactional_ids(_IDS_AT_ONCE)
    if not slices:
        return (yield from answer_of(transactions.list_transactions(request, client)))
    response = ListTransactionsResponse()
    yield from _take_unknown_states(request, response)
    producer_ids = yield from _take_producer_ids(request)
    answers = []
    for each in slices:
        answers.append(transactions.list_transactions(request, client, each))
        yield None
    for answer in answers:
        part = yield from answer_of(answer)
        if part.error_code:
            return part
        response.transaction_states += [
            each for each in part.transaction_states if not producer_ids or each.producer_id in producer_ids
        ]
        yield None
    return response


def _take_unknown_states(request: ListTransactionsRequest, response: ListTransactionsResponse) -> Work[None]:
    """Adds each unknown state to the response once, and leaves each known state in the filter once.

    If no state is known, one unknown state stays, which matches nothing.
    """
    known: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for name in request.state_filters:
        (known if name in _NAMES else unknown)[name] = None
        yield None
    response.unknown_state_filters = list(unknown)
    request.state_filters = list(known) or response.unknown_state_filters[:1]


def _take_producer_ids(request: ListTransactionsRequest) -> Work[set[int]]:
    """Takes the filter out of the request and returns it as a set, so that the parts of the list share the set."""
    producer_ids: set[int] = set()
    for producer_id in request.producer_id_filters:
        producer_ids.add(producer_id)
        yield None
    request.producer_id_filters = []
    return producer_ids


def error_response(
    request: ListTransactionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListTransactionsResponse:
    """Returns a response with this error."""
    return ListTransactionsResponse(error_code=code)
