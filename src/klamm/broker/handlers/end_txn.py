"""EndTxn: commits or aborts the transaction of a producer (KIP-98).

Versions 0 to 5: v2 PRODUCER_FENCED, v3 flexible, v4 TRANSACTION_ABORTABLE, v5 bumps the epoch and returns the
producer's next id and epoch (KIP-890).
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
    """Decides the outcome. The markers are written to the partitions afterwards."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.transactions.end_txn(request, client)


def error_response(request: EndTxnRequest, version: int, code: ErrorCode, message: str | None = None) -> EndTxnResponse:
    """Returns a response with this error."""
    return EndTxnResponse(error_code=code)
