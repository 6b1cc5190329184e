"""SaslHandshake: selects the SASL mechanism for authentication (KIP-43).

Versions 0 to 1: v1 the client authenticates with SaslAuthenticate. No listener uses SASL yet, so the broker refuses
this request; only other brokers have a mechanism (`services/peers/peer_identity.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.services.peers.peer_identity import MECHANISM, IdentityCheck
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.protocol.types import BrokerId

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begins the check of another broker's identity; answers ILLEGAL_SASL_STATE to clients, as Kafka does on a listener
    without SASL."""
    metadata = context.broker.metadata

    def incarnation_of(broker_id: BrokerId) -> str | None:
        live = metadata.image.live.get(broker_id)
        return None if live is None else live.incarnation

    if request.mechanism == MECHANISM and context.is_between_brokers and metadata.is_shared:
        context.connection.identity_check = IdentityCheck(incarnation_of)
        return SaslHandshakeResponse(mechanisms=[MECHANISM])
    return error_response(request, context.api_version, ErrorCode.ILLEGAL_SASL_STATE)


def error_response(
    request: SaslHandshakeRequest, version: int, code: ErrorCode, message: str | None = None
) -> SaslHandshakeResponse:
    """Returns a response with this error."""
    return SaslHandshakeResponse(error_code=code)
