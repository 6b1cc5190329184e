"""InitProducerId: returns a producer id and epoch, with which the broker detects retried batches (KIP-98).

Versions 0 to 5: v1 response before throttling, v2 flexible, v3 the producer's current id and epoch (KIP-360),
v4 PRODUCER_FENCED, v5 TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
_FIRST_EPOCH: Final = 0


def handle(context: RequestContext, request: InitProducerIdRequest) -> Answer[InitProducerIdResponse]:
    """Returns a new producer id with epoch 0, whatever id the producer had.

    Bumps the old epoch instead only for a transactional id.

    Raises INVALID_REQUEST for an id without an epoch or an epoch without an id.
    """
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together or not at all")
    if request.transactional_id is None:
        return _new_producer(context)
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.transactions.init_producer_id(request, client)


async def _new_producer(context: RequestContext) -> InitProducerIdResponse:
    producer_id = await context.broker.metadata.next_producer_id()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=_FIRST_EPOCH)


def error_response(
    request: InitProducerIdRequest, version: int, code: ErrorCode, message: str | None = None
) -> InitProducerIdResponse:
    """Returns a response with this error and no id."""
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
