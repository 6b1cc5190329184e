"""The topic `__group_history` on this broker, for the runtime that writes the history of groups into it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from klamm.broker.services.coordinator_ports import PartitionLogs
from klamm.broker.services.internal_topics import HISTORY_TOPIC
from klamm.protocol.types import Millis

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry

__all__ = ["HistoryTopic"]

logger = logging.getLogger(__name__)


class HistoryTopic(PartitionLogs):
    """Its partitions, and how it is made. `ensure_topic` creates an internal topic by name unless it is there."""

    def __init__(
        self, partitions: PartitionRegistry, clock: Callable[[], Millis], ensure_topic: Callable[[str], Awaitable[None]]
    ) -> None:
        super().__init__(HISTORY_TOPIC, partitions, clock)
        self._ensure_topic = ensure_topic

    @property
    def is_ready(self) -> bool:
        """Whether the topic is there."""
        return HISTORY_TOPIC in self._partitions.by_name

    def make(self, done: Callable[[bool], None]) -> TopicInTheMaking:
        """Makes the topic, beside whatever else goes on, and calls back with whether it is there now."""
        return TopicInTheMaking(asyncio.get_running_loop().create_task(self._make(done)))

    async def _make(self, done: Callable[[bool], None]) -> None:
        try:
            await self._ensure_topic(HISTORY_TOPIC)
        except Exception as error:
            logger.warning("the topic %s can't be made: %s", HISTORY_TOPIC, error)
        done(self.is_ready)


class TopicInTheMaking:
    """Can be called off until the topic is there."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def cancel(self) -> None:
        """Calls it off; harmless when it is over."""
        self._task.cancel()
