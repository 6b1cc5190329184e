"""EndTxn: a producer commits or aborts its transaction (KIP-98).

Versions 0 to 5: 2 PRODUCER_FENCED, 3 flexible, 4 TRANSACTION_ABORTABLE, 5 the epoch is bumped, and the answer tells the
producer's id and epoch from here on (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: EndTxnRequest) -> Answer[EndTxnResponse]:
    """Settles the outcome; the markers in the partitions follow."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.transactions.end_txn(request, client)


def error_response(request: EndTxnRequest, version: int, code: ErrorCode, message: str | None = None) -> EndTxnResponse:
    """The answer that settles nothing."""
    return EndTxnResponse(error_code=code)
