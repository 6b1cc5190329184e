"""DescribeDelegationToken: returns the tokens of some users, or of all (KIP-48).

Versions 1 to 3: v2 flexible, v3 the requester of each token (KIP-373). klamm does not authenticate clients yet, so
there are no tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.delegation_tokens import REFUSAL
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_delegation_token_request import DescribeDelegationTokenRequest
from klamm.protocol.schema.describe_delegation_token_response import DescribeDelegationTokenResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    """Answers DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka does on a connection that is not authenticated."""
    return error_response(request, context.api_version, REFUSAL)


def error_response(
    request: DescribeDelegationTokenRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeDelegationTokenResponse:
    """Returns a response with this error."""
    return DescribeDelegationTokenResponse(error_code=code)
