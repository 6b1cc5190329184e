"""Producer ids from the metadata store, a block at a time.

Source: `RPCProducerIdManager` of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from klamm.metadata.entries import put_producer_ids
from klamm.metadata.image import MetadataImage
from klamm.metadata.metadata_store import Plan
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import ProducerId

__all__ = ["ProducerIds"]

_BLOCK_SIZE: Final = 1000


class ProducerIds:
    """The producer ids of one broker. `change` decides on the newest image and writes the decision."""

    def __init__(self, change: Callable[[Callable[[MetadataImage], Plan[range]]], Awaitable[range]]) -> None:
        self._change = change
        self._ids = range(0)
        # The first caller that finds the block used up allocates the next one for all that wait.
        self._giving = asyncio.Lock()

    async def allocate(self, count: int = _BLOCK_SIZE) -> range:
        """Allocates `count` producer ids that are used nowhere else, neither before nor later."""

        def plan(image: MetadataImage) -> Plan[range]:
            block = range(image.next_producer_id, image.next_producer_id + count)
            return Plan(block, [put_producer_ids(block.stop)])

        return await self._change(plan)

    async def next(self) -> ProducerId:
        """Returns a new producer id. Only every thousandth call writes to the store.

        Raises COORDINATOR_LOAD_IN_PROGRESS if no block can be allocated now.
        """
        async with self._giving:
            if not self._ids:
                try:
                    self._ids = await self.allocate()
                except KafkaError as error:
                    raise KafkaError(
                        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids can be allocated now: {error}"
                    ) from error
            producer_id, self._ids = self._ids[0], self._ids[1:]
            return ProducerId(producer_id)
