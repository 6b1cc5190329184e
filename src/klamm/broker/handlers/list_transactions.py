"""ListTransactions: the transactional ids that this broker coordinates (KIP-664).

Versions 0 to 2: 1 a filter on the duration (KIP-994), 2 a pattern of transactional ids (KIP-1152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.core.coordinator.contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: ListTransactionsRequest) -> Answer[ListTransactionsResponse]:
    """Lists what passes the filters. The pattern is RE2's. Raises INVALID_REGULAR_EXPRESSION for another."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.transactions.list_transactions(request, client)


def error_response(
    request: ListTransactionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListTransactionsResponse:
    """The answer that lists nothing."""
    return ListTransactionsResponse(error_code=code)
