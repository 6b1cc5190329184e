"""InitProducerId: an id under which a producer numbers its batches, so that a retry is told from a new one (KIP-98).

Versions 0 to 5: 1 throttling before the answer, 2 flexible, 3 the id and epoch that the producer has (KIP-360),
4 PRODUCER_FENCED, 5 TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
FIRST_EPOCH: Final = 0


def handle(context: RequestContext, request: InitProducerIdRequest) -> Awaitable[InitProducerIdResponse]:
    """A new producer id with epoch 0, whatever id the producer had: only a transactional one is bumped in its place.

    Raises INVALID_REQUEST for an id without an epoch or an epoch without an id, and for an empty transactional id.
    Transactions are not served yet: a transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED, since that is the
    one refusal that librdkafka, aiokafka and the Java client all take for final; after another some ask forever.
    """
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.invalid_request, "a producer id and its epoch come together or not at all")
    if request.transactional_id is None:
        return _new_producer(context)
    if not request.transactional_id:
        raise KafkaError(ErrorCode.invalid_request, "the transactional id is empty")
    raise KafkaError(ErrorCode.transactional_id_authorization_failed, "this broker does not serve transactions")


async def _new_producer(context: RequestContext) -> InitProducerIdResponse:
    producer_id = await context.broker.metadata.next_producer_id()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)


def error_response(
    request: InitProducerIdRequest, version: int, code: ErrorCode, message: str | None = None
) -> InitProducerIdResponse:
    """The answer that gives no id."""
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
