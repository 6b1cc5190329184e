"""CreateDelegationToken: creates a token that stands for a user for a limited time (KIP-48).

Versions 1 to 3: v2 flexible, v3 tokens for other users (KIP-373). klamm does not authenticate clients yet, so it issues
no tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.delegation_tokens import ANONYMOUS, NO_TIME, REFUSAL, USER
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.create_delegation_token_request import CreateDelegationTokenRequest
from klamm.protocol.schema.create_delegation_token_response import CreateDelegationTokenResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Answers DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka does on a connection that is not authenticated."""
    return error_response(request, context.api_version, REFUSAL)


def error_response(
    request: CreateDelegationTokenRequest, version: int, code: ErrorCode, message: str | None = None
) -> CreateDelegationTokenResponse:
    """Returns a response with this error and the requested owner, or the client if the request names no owner."""
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=request.owner_principal_type or USER,
        principal_name=request.owner_principal_name or ANONYMOUS,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if version >= 3:
        response.token_requester_principal_type = USER
        response.token_requester_principal_name = ANONYMOUS
    return response
