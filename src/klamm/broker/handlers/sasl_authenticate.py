"""SaslAuthenticate: a client proves who it is (KIP-152).

Versions 0 to 2: 1 the lifetime of the proof (KIP-368), 2 flexible. No listener asks for SASL yet, so this is always
the wrong moment.
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
    return error_response(request, context.api_version, ErrorCode.illegal_sasl_state, reason)


def error_response(
    request: SaslAuthenticateRequest, version: int, code: ErrorCode, message: str | None = None
) -> SaslAuthenticateResponse:
    """The answer that refuses the request."""
    return SaslAuthenticateResponse(error_code=code, error_message=message)
