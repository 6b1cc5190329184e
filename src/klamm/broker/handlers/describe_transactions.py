"""DescribeTransactions: returns the states of transactional ids (KIP-664). Version 0 only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.schema.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["PART_ELEMENTS", "error_response", "handle"]

PART_ELEMENTS: Final = 100
"""Maximum number of transactional ids described in one step."""


def handle(context: RequestContext, request: DescribeTransactionsRequest) -> Answer[DescribeTransactionsResponse]:
    """Describes the transactional ids that this broker coordinates; the others get NOT_COORDINATOR."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.transactions.describe_transactions(request, client)


def error_response(
    request: DescribeTransactionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeTransactionsResponse:
    """Returns a response with this error for every transactional id."""
    states = [TransactionState(transactional_id=each, error_code=code) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)
