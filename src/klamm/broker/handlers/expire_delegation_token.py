"""ExpireDelegationToken: makes a token expire earlier (KIP-48).

Versions 1 to 2: v2 flexible. klamm does not authenticate clients yet, so there are no tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.delegation_tokens import NO_TIME, REFUSAL
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.expire_delegation_token_request import ExpireDelegationTokenRequest
from klamm.protocol.schema.expire_delegation_token_response import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Answers DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka does on a connection that is not authenticated."""
    return error_response(request, context.api_version, REFUSAL)


def error_response(
    request: ExpireDelegationTokenRequest, version: int, code: ErrorCode, message: str | None = None
) -> ExpireDelegationTokenResponse:
    """Returns a response with this error."""
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
