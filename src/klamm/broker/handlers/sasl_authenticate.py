"""SaslAuthenticate: authenticates a client (KIP-152).

Versions 0 to 2: v1 the session lifetime (KIP-368), v2 flexible. No listener uses SASL yet, so the broker refuses this
request; only other brokers have a mechanism (`services/peers/peer_identity.py`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from klamm.broker.services.peers.peer_identity import NotProven
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_authenticate_response import SaslAuthenticateResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_logger = logging.getLogger(__name__)


def handle(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Goes on with the check of another broker's identity; answers ILLEGAL_SASL_STATE to clients, as Kafka does on a
    listener without SASL."""
    connection = context.connection
    check = connection.identity_check
    if check is not None:
        try:
            answer = check.answer(request.auth_bytes)
        except NotProven as error:
            connection.identity_check = None
            _logger.warning("%s is not accepted as a broker: %s", connection.peer, error)
            return error_response(request, context.api_version, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
        if check.broker_id is not None:
            connection.broker_id = check.broker_id
            connection.identity_check = None
        return SaslAuthenticateResponse(auth_bytes=answer)
    reason = "SaslAuthenticate request received after successful authentication"
    return error_response(request, context.api_version, ErrorCode.ILLEGAL_SASL_STATE, reason)


def error_response(
    request: SaslAuthenticateRequest, version: int, code: ErrorCode, message: str | None = None
) -> SaslAuthenticateResponse:
    """Returns a response with this error."""
    return SaslAuthenticateResponse(error_code=code, error_message=message)
