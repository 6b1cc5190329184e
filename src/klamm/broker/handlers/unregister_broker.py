"""UnregisterBroker: removes from the cluster a broker that will not come back (KIP-631).

Version 0 only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.unregister_broker_response import UnregisterBrokerResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Raises BROKER_ID_NOT_REGISTERED for a broker that does not exist, and INVALID_REQUEST for the only broker."""
    if request.broker_id not in context.broker.metadata.image.brokers:
        reason = f"Broker ID {request.broker_id} is not currently registered"
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, reason)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker {request.broker_id} is the only one of this cluster.")


def error_response(
    request: UnregisterBrokerRequest, version: int, code: ErrorCode, message: str | None = None
) -> UnregisterBrokerResponse:
    """Returns a response with this error."""
    return UnregisterBrokerResponse(error_code=code, error_message=message)
