"""Gives up the places of replicas that can't be written to, so that other brokers lead their partitions.

The disk is full, or the log has gone offline. A replica that has given up its places does not fetch for a while
(`core/replication/write_pause.py`), so that it does not join the in-sync replicas again at once.

Source: `LogDirFailureHandler` and the offline directories in the heartbeats of Apache Kafka 4.3's brokers, for one log
instead of a directory. Kafka takes a directory offline at its first failed write.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from klamm.core.replication.write_pause import WritePause
from klamm.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.metadata.image import MetadataImage
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import BrokerId, TopicPartition
    from klamm.runtime.ports import Spawn

__all__ = ["FailedLogs"]

_logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class FailedLogs:
    """The logs of one broker that have failed while it ran. Belongs to the event loop on which it is created."""

    def __init__(
        self,
        node_id: BrokerId,
        metadata: MetadataService,
        spawn: Spawn,
        is_offline: Callable[[TopicPartition], bool],
        first_pause_ms: float,
    ) -> None:
        """Creates the object without failed logs. `is_offline` tells whether this broker's log of a partition is.

        `first_pause_ms`: see `WritePause.begin`.
        """
        self._node_id = node_id
        self._metadata = metadata
        self._spawn = spawn
        self._is_offline = is_offline
        self._first_pause_ms = first_pause_ms
        self._loop = asyncio.get_running_loop()
        self._pauses: dict[TopicPartition, WritePause] = {}
        """Pauses that are not forgotten, in the order of their last failures."""
        self._offline: set[TopicPartition] = set()
        """Logs that were offline when they failed, so that they stay so until the broker starts again."""
        self._waiting: dict[TopicPartition, None] = {}
        self._is_giving_up = False
        self._must_distrust = False

    def add(self, topic_partition: TopicPartition) -> None:
        """Gives up this broker's places in a partition soon. Tries until the metadata can be written."""
        if self._is_offline(topic_partition):
            self._offline.add(topic_partition)
        self._pause(topic_partition)
        self._waiting[topic_partition] = None
        self._begin()

    def _pause(self, topic_partition: TopicPartition) -> None:
        now_ms = self._loop.time() * 1000
        pause = self._pauses.pop(topic_partition, None) or WritePause()
        pause.begin(now_ms, self._first_pause_ms, grows=topic_partition not in self._waiting)
        self._pauses[topic_partition] = pause
        oldest = next(iter(self._pauses))
        if self._pauses[oldest].is_forgotten(now_ms):
            del self._pauses[oldest]

    def may_fetch_at_ms(self, topic_partition: TopicPartition) -> float:
        """Returns the time of the event loop, in milliseconds, before which the replica should not fetch."""
        pause = self._pauses.get(topic_partition)
        return 0.0 if pause is None else pause.until_ms

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Gives up places that a replica has got although its log is offline.

        The leader may have proposed it before the log failed, and is not told of the failure. With its log offline the
        replica could be elected, and could not lead.
        """
        if not self._offline or old.topics is new.topics:
            return
        for topic_partition in list(self._offline):
            if old.topics.get(topic_partition.topic) is new.topics.get(topic_partition.topic):
                continue  # A look at each log at each change would take long: all logs of a disk may be offline.
            if not self._is_offline(topic_partition):
                self._offline.discard(topic_partition)
            elif self._has_a_place(new, topic_partition):
                self.add(topic_partition)

    def _has_a_place(self, image: MetadataImage, topic_partition: TopicPartition) -> bool:
        topic = image.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= len(topic.partitions):
            return False
        partition = topic.partitions[topic_partition.partition]
        return self._node_id in (partition.leader, *partition.isr, *partition.elr)

    def distrust_run(self) -> None:
        """Removes this run from the broker's registration soon, so that the next one is no eligible leader replica."""
        self._must_distrust = True
        self._begin()

    def _begin(self) -> None:
        if not self._is_giving_up:
            self._is_giving_up = True
            self._spawn(self._give_up_all())

    async def _give_up_all(self) -> None:
        try:
            while (self._waiting or self._must_distrust) and not self._metadata.is_closed:
                failed, self._waiting = self._waiting, {}
                try:
                    if self._must_distrust:
                        await self._metadata.replicas.distrust_run()
                        self._must_distrust = False
                    count = await self._metadata.replicas.give_up(list(failed))
                except Exception as error:
                    # Whatever the error is: otherwise a replica whose log is offline could be elected.
                    _logger.warning(
                        "%d failed replicas keep their places so far: %s",
                        len(failed),
                        error,
                        exc_info=not isinstance(error, KafkaError),
                    )
                    self._waiting.update(failed)
                    await asyncio.sleep(_RETRY_S)
                    continue
                if count:
                    _logger.warning("this broker can't write to %d partitions, and has given up its replicas", count)
        finally:
            self._is_giving_up = False
