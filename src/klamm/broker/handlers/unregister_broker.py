"""UnregisterBroker: removes a broker from the cluster (KIP-631).

Version 0 only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.time_slices import Work, wait_for
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.unregister_broker_response import UnregisterBrokerResponse
from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: UnregisterBrokerRequest) -> Work[UnregisterBrokerResponse]:
    """Removes the registration of a broker.

    A live broker hands its partitions over and stops when it sees this. In Kafka the controller takes the partitions of
    such a broker away (`ReplicationControlManager.handleBrokerUnregistered`) and refuses its heartbeats, and the broker
    runs on without work.

    Raises BROKER_ID_NOT_REGISTERED for a broker that does not exist, and INVALID_REQUEST for a single broker.
    """
    yield from reach_newest_metadata(context)
    yield from wait_for(context.broker.metadata.unregister_broker(BrokerId(request.broker_id)))
    return UnregisterBrokerResponse()


def error_response(
    request: UnregisterBrokerRequest, version: int, code: ErrorCode, message: str | None = None
) -> UnregisterBrokerResponse:
    """Returns a response with this error."""
    return UnregisterBrokerResponse(error_code=code, error_message=message)
