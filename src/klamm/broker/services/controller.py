"""Elects leaders when brokers come and go. The live broker with the lowest id does it for the cluster.

It needs no election of its own: two brokers that both believe to be the controller make the same decisions, and the
store accepts each of them once. The controller reacts to events, so no partition waits for the next turn of a timer.

Source: `ReplicationControlManager` of Apache Kafka 4.3, for the events.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import KafkaError

if TYPE_CHECKING:
    from klamm.metadata.image import MetadataImage
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import BrokerId

__all__ = ["Controller"]

_logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5


class Controller:
    """The controller's part of one broker, from `start` to `stop`. Idle while another broker is the controller."""

    def __init__(self, node_id: BrokerId, metadata: MetadataService) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._loop = asyncio.get_running_loop()
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Looks at all partitions now, and after each change of the live brokers."""
        self._metadata.subscribe(self._on_metadata_update)
        self._is_due.set()
        self._task = self._loop.create_task(self._keep_leaders())

    def stop(self) -> None:
        """Decides nothing more."""
        if self._task is not None:
            self._task.cancel()

    def _on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        # A setting may allow an election that was not allowed before.
        if old.brokers is not new.brokers or old.configs is not new.configs:
            self._is_due.set()

    async def _keep_leaders(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            if self._metadata.image.controller_id != self._node_id:
                continue
            try:
                count = await self._metadata.replicas.keep_leaders()
            except KafkaError as error:
                _logger.warning("leaders can't be elected, another attempt follows: %s", error)
                await asyncio.sleep(_RETRY_S)
                self._is_due.set()
            else:
                if count:
                    _logger.info("the controller has changed %d partitions, because brokers have come or gone", count)
