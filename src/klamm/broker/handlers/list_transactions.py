"""ListTransactions: the transactional ids that this broker coordinates (KIP-664).

Versions 0 to 2: 1 a filter on the duration (KIP-994), 2 a pattern of transactional ids (KIP-1152).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from klamm.broker.steps import IDS_AT_ONCE, answer_in_steps
from klamm.core.coordinator.contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.runtime.answers import Answer
from klamm.runtime.transaction_coordinator import merge_lists

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: ListTransactionsRequest) -> Answer[ListTransactionsResponse | bytes]:
    """Lists what passes the filters, in steps if there is very much. The pattern is RE2's.

    Raises INVALID_REGULAR_EXPRESSION for another.
    """
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    transactions = context.broker.transactions
    slices = transactions.transactional_ids(IDS_AT_ONCE)
    if sum(len(ids) for _, ids in slices) <= IDS_AT_ONCE:
        return transactions.list_transactions(request, client)
    parts = [partial(transactions.list_transactions, request, client, each) for each in slices]
    return answer_in_steps(parts, partial(merge_lists, request), context.api_version)


def error_response(
    request: ListTransactionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListTransactionsResponse:
    """The answer that lists nothing."""
    return ListTransactionsResponse(error_code=code)
