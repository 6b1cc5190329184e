"""SaslHandshake: selects the SASL mechanism for authentication (KIP-43).

Versions 0 to 1: v1 the client authenticates with SaslAuthenticate. No listener uses SASL yet, so the broker refuses
this request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Answers ILLEGAL_SASL_STATE, as Kafka does on a listener without SASL."""
    return error_response(request, context.api_version, ErrorCode.ILLEGAL_SASL_STATE)


def error_response(
    request: SaslHandshakeRequest, version: int, code: ErrorCode, message: str | None = None
) -> SaslHandshakeResponse:
    """Returns a response with this error."""
    return SaslHandshakeResponse(error_code=code)
