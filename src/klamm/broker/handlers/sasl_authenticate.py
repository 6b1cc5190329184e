"""SaslAuthenticate: authenticates a client (KIP-152).

Versions 0 to 2: v1 the session lifetime (KIP-368), v2 flexible. No listener uses SASL yet, so the broker refuses this
request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_authenticate_response import SaslAuthenticateResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Answers ILLEGAL_SASL_STATE, as Kafka does on a listener without SASL."""
    reason = "SaslAuthenticate request received after successful authentication"
    return error_response(request, context.api_version, ErrorCode.ILLEGAL_SASL_STATE, reason)


def error_response(
    request: SaslAuthenticateRequest, version: int, code: ErrorCode, message: str | None = None
) -> SaslAuthenticateResponse:
    """Returns a response with this error."""
    return SaslAuthenticateResponse(error_code=code, error_message=message)
