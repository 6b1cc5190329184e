"""A pool of prefetched producer ids for a coordinator's shards.

A shard decides synchronously, but a new producer id may have to be fetched from the metadata. So a few are fetched in
advance. After Apache Kafka's `RPCProducerIdManager`, which requests the next block while it hands out the current one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import ProducerId
from klamm.runtime.ports import Spawn

__all__ = ["ProducerIdPool"]

_logger = logging.getLogger(__name__)

_STOCK: Final = 16


class ProducerIdPool:
    """Hands out unique producer ids, as long as any are prefetched."""

    def __init__(self, next_producer_id: Callable[[], Awaitable[ProducerId]], spawn: Spawn) -> None:
        self._next_producer_id = next_producer_id
        self._spawn = spawn
        self._at_hand: deque[ProducerId] = deque()
        self._is_refilling = False

    @property
    def is_empty(self) -> bool:
        """Whether no producer id is prefetched, so that a caller has to await `refill`."""
        return not self._at_hand

    def take(self) -> ProducerId:
        """Returns an unused producer id.

        Raises COORDINATOR_LOAD_IN_PROGRESS, as Kafka does, if the pool is empty, and starts to refill it.
        """
        if not self._at_hand:
            if not self._is_refilling:
                self._is_refilling = True
                self._spawn(self._refill_in_background())
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "new producer ids are being fetched")
        return self._at_hand.popleft()

    async def refill(self) -> None:
        """Fetches producer ids until the pool is full. Raises the errors of `next_producer_id`."""
        while len(self._at_hand) < _STOCK:
            self._at_hand.append(await self._next_producer_id())

    async def _refill_in_background(self) -> None:
        try:
            await self.refill()
        except KafkaError as error:
            _logger.warning("no producer ids could be fetched: %s", error)
        finally:
            self._is_refilling = False
