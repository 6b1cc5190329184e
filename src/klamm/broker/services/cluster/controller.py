"""Elects leaders when brokers come and go. The live broker with the lowest id does it for the cluster.

It needs no election of its own: two brokers that both believe to be the controller make the same decisions, and the
store accepts each of them once. The controller reacts to events, so no partition without a leader waits for a timer.

Source: `ReplicationControlManager` of Apache Kafka 4.3, for the events.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from klamm.metadata.image import NO_BROKER
from klamm.metadata.replicas.partition_change import Election
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.image import MetadataImage
    from klamm.metadata.service import MetadataService

__all__ = ["Controller"]

_logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_BALANCED_AT_ONCE: Final = 50
"""Number of leaders that move in one turn, as a new leader has to load its coordinators."""


class Controller:
    """The controller's part of one broker, from `start` to `stop`. Idle while another broker is the controller."""

    def __init__(self, config: Callable[[], BrokerConfig], metadata: MetadataService) -> None:
        self._config = config
        self._node_id = config().node_id
        self._metadata = metadata
        self._loop = asyncio.get_running_loop()
        self._is_due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Looks at all partitions now, and after each change of the live brokers or of settings."""
        self._metadata.subscribe(self._on_metadata_update)
        self._is_due.set()
        self._tasks = [self._loop.create_task(self._keep_leaders()), self._loop.create_task(self._balance_leaders())]

    def stop(self) -> None:
        """Decides nothing more."""
        for task in self._tasks:
            task.cancel()

    def _on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        # A setting of the cluster or of a topic may allow an election that was not allowed before.
        if (
            old.brokers is not new.brokers
            or old.configs is not new.configs
            or old.topic_configs_revision != new.topic_configs_revision
        ):
            self._is_due.set()

    async def _keep_leaders(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            if self._metadata.image.controller_id != self._node_id:
                continue
            try:
                count = await self._metadata.replicas.keep_leaders()
            except Exception as error:
                # Without this task the cluster would elect no leaders any more, whatever the error is.
                _logger.warning(
                    "leaders can't be elected, another attempt follows: %s",
                    error,
                    exc_info=not isinstance(error, KafkaError),
                )
                await asyncio.sleep(_RETRY_S)
                self._is_due.set()
            else:
                if count:
                    _logger.info("the controller has changed %d partitions, because brokers have come or gone", count)

    async def _balance_leaders(self) -> None:
        """Elects preferred leaders at intervals: after a restart, other brokers lead the partitions of a broker."""
        while True:
            await asyncio.sleep(self._config().leader_imbalance_check_interval_seconds)
            image = self._metadata.image
            if image.controller_id != self._node_id or not self._config().auto_leader_rebalance_enable:
                continue
            wanted = [
                TopicPartition(topic.name, partition.index)
                for topic in image.topics.values()
                for partition in topic.partitions
                if partition.leader not in (NO_BROKER, partition.replicas[0]) and partition.replicas[0] in partition.isr
            ][:_BALANCED_AT_ONCE]
            if not wanted:
                continue
            try:
                await self._metadata.replicas.elect(wanted, Election.PREFERRED)
            except Exception as error:
                _logger.warning(
                    "leaders can't be balanced, another attempt follows: %s",
                    error,
                    exc_info=not isinstance(error, KafkaError),
                )
            else:
                _logger.info("the controller has elected the preferred leaders of %d partitions", len(wanted))
