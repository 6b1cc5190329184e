"""The markers that wait for a leader of their partitions, and the changes of the metadata that concern them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from klamm.protocol.internal_topic_names import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from klamm.metadata.image import MetadataImage
    from klamm.protocol.types import TopicPartition

__all__ = ["WaitingMarkers"]

_WOKEN_AT_ONCE: Final = 50
"""Markers that continue in one iteration of the loop. Many thousands may wait for the same broker."""


class WaitingMarkers:
    """Tasks that wait until the metadata show a change that may help them. Belongs to one event loop."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[asyncio.Future[None], None]] = {}
        """The waiting tasks by the topics that concern them: those of the marker, and the coordinators' topic.
        They are woken in the order in which they began to wait."""

    async def wait(self, partitions: Iterable[TopicPartition]) -> None:
        """Returns after a broker became live, one of the topics changed, or a coordinator moved."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        topics = dict.fromkeys((TRANSACTIONS_TOPIC, *(each.topic for each in partitions)))
        for topic in topics:
            self._by_topic.setdefault(topic, {})[change] = None
        try:
            await change
        finally:
            for topic in topics:
                waiting = self._by_topic[topic]
                del waiting[change]
                if not waiting:
                    del self._by_topic[topic]

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Wakes the tasks that the change concerns, some at a time."""
        if not self._by_topic:
            return
        concerned: deque[asyncio.Future[None]] = deque()
        if any(old.brokers.get(broker_id) != broker for broker_id, broker in new.brokers.items()):
            concerned.extend(self._by_topic[TRANSACTIONS_TOPIC])
        elif old.topics is not new.topics:
            for topic, waiting in self._by_topic.items():
                if old.topics.get(topic) is not new.topics.get(topic):
                    concerned.extend(waiting)
        _wake(concerned)


def _wake(concerned: deque[asyncio.Future[None]]) -> None:
    for _ in range(min(_WOKEN_AT_ONCE, len(concerned))):
        change = concerned.popleft()
        if not change.done():
            change.set_result(None)
    if concerned:
        asyncio.get_running_loop().call_soon(_wake, concerned)
