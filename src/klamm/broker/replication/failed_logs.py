"""Gives up the places of replicas that can't be written to, so that other brokers lead their partitions.

The disk is full, or the log has gone offline.

Source: `LogDirFailureHandler` and the offline directories in the heartbeats of Apache Kafka 4.3's brokers, for one log
instead of a directory. Kafka takes a directory offline at its first failed write.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import KafkaError

if TYPE_CHECKING:
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import TopicPartition
    from klamm.runtime.ports import Spawn

__all__ = ["FailedLogs"]

_logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class FailedLogs:
    """The logs of one broker that have failed while it ran. Belongs to the event loop on which it is created."""

    def __init__(self, metadata: MetadataService, spawn: Spawn) -> None:
        self._metadata = metadata
        self._spawn = spawn
        self._waiting: dict[TopicPartition, None] = {}
        self._is_giving_up = False
        self._must_distrust = False

    def add(self, topic_partition: TopicPartition) -> None:
        """Gives up this broker's places in a partition soon. Tries until the metadata can be written."""
        self._waiting[topic_partition] = None
        self._begin()

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
                failed = list(self._waiting)
                try:
                    if self._must_distrust:
                        await self._metadata.replicas.distrust_run()
                        self._must_distrust = False
                    count = await self._metadata.replicas.give_up(failed)
                except KafkaError as error:
                    _logger.warning("%d failed replicas keep their places so far: %s", len(failed), error)
                    await asyncio.sleep(_RETRY_S)
                    continue
                for topic_partition in failed:
                    del self._waiting[topic_partition]
                if count:
                    _logger.warning("this broker can't write to %d partitions, and has given up its replicas", count)
        finally:
            self._is_giving_up = False
