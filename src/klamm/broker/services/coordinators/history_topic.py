"""The topic `__group_history` on this broker, for the runtime that writes the history of groups into it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from klamm.broker.services.coordinators.coordinator_ports import PartitionLogs
from klamm.protocol.internal_topic_names import HISTORY_TOPIC
from klamm.protocol.types import Millis

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry

__all__ = ["HistoryTopic"]

_logger = logging.getLogger(__name__)


class HistoryTopic(PartitionLogs):
    """The partitions of the history topic, and its creation. `ensure_topic` creates an internal topic unless it
    exists."""

    _needs_in_sync_replicas = False  # no answer waits for the history, and a change that is refused is lost

    def __init__(
        self, partitions: PartitionRegistry, clock: Callable[[], Millis], ensure_topic: Callable[[str], Awaitable[None]]
    ) -> None:
        super().__init__(HISTORY_TOPIC, partitions, clock)
        self._ensure_topic = ensure_topic

    @property
    def is_ready(self) -> bool:
        """Whether the topic exists."""
        return HISTORY_TOPIC in self._partitions.by_name

    def make(self, done: Callable[[bool], None]) -> TopicInTheMaking:
        """Creates the topic in a background task, and calls `done` with whether the topic exists then."""
        return TopicInTheMaking(asyncio.get_running_loop().create_task(self._make(done)))

    async def _make(self, done: Callable[[bool], None]) -> None:
        try:
            await self._ensure_topic(HISTORY_TOPIC)
        except Exception as error:
            _logger.warning("the topic %s can't be created: %s", HISTORY_TOPIC, error)
        done(self.is_ready)


class TopicInTheMaking:
    """The creation of the topic, which can be cancelled while it is in progress."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def cancel(self) -> None:
        """Cancels the creation; harmless when it has ended."""
        self._task.cancel()
