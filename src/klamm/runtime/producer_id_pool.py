"""Producer ids that are at hand when a coordinator's shard needs one.

A shard decides at once, and a new producer id may have to be fetched from the metadata: so a few are fetched ahead.
After Apache Kafka's `RPCProducerIdManager`, which asks for the next block while it hands out the one it has.
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

_log = logging.getLogger(__name__)

_STOCK: Final = 16


class ProducerIdPool:
    """Hands out producer ids that nobody else has, as long as there are any at hand."""

    def __init__(self, next_producer_id: Callable[[], Awaitable[ProducerId]], spawn: Spawn) -> None:
        self._next_producer_id = next_producer_id
        self._spawn = spawn
        self._at_hand: deque[ProducerId] = deque()
        self._is_refilling = False

    @property
    def is_empty(self) -> bool:
        """Whether the next one has to be waited for."""
        return not self._at_hand

    def take(self) -> ProducerId:
        """One that nobody has. Raises COORDINATOR_LOAD_IN_PROGRESS, as Kafka does, if there is none at the moment; then
        more are fetched.
        """
        if not self._at_hand:
            if not self._is_refilling:
                self._is_refilling = True
                self._spawn(self._refill_in_background())
            raise KafkaError(ErrorCode.coordinator_load_in_progress, "new producer ids are being fetched")
        return self._at_hand.popleft()

    async def refill(self) -> None:
        """Return once some are at hand. Raises what the metadata raises."""
        while len(self._at_hand) < _STOCK:
            self._at_hand.append(await self._next_producer_id())

    async def _refill_in_background(self) -> None:
        try:
            await self.refill()
        except KafkaError as error:
            _log.warning("no producer ids could be fetched: %s", error)
        finally:
            self._is_refilling = False
