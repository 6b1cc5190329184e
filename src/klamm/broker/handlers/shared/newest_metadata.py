"""Waits until a broker knows all earlier changes of the metadata, for requests that Kafka forwards to its controller.

In a cluster, a broker hears of the changes of another broker a little later than the client that requested them, and
Kafka's controller knows all of them. Without the wait, the broker would refuse a topic that the client has just deleted
through another broker, or list a reassignment that is over (`KafkaApis.forwardToController`). Requests that a broker of
Kafka answers from its own metadata do not wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from klamm.broker.time_slices import Work, wait_for
from klamm.metadata.metadata_store import MetadataStoreError
from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.metadata.service import MetadataService

__all__ = ["reach_newest_metadata"]

_PATIENCE_S: Final = 10.0
"""How long a request waits for a metadata store that does not answer, or whose changes do not arrive. Clients wait for
30 seconds, so they get the error, and try again."""


def reach_newest_metadata(context: RequestContext) -> Work[None]:
    """Returns once the image has all changes that were answered before this call, through any broker.

    Raises KAFKA_STORAGE_ERROR if the metadata store is not available, REQUEST_TIMED_OUT if it takes too long.
    """
    metadata = context.broker.metadata
    if metadata.is_shared:
        yield from wait_for(_reach_newest(metadata))


async def _reach_newest(metadata: MetadataService) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await metadata.catch_up()
    except TimeoutError:
        reason = "This broker does not receive the changes of the metadata in time."
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, reason) from None
    except MetadataStoreError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
