"""Elects leaders when brokers come and go. One broker does it for the cluster: the live one with the lowest id, without
those that are about to stop.

It needs no election of its own: two brokers that both believe to be the controller make the same decisions, and the
store accepts each of them once. The controller reacts to events, so no partition without a leader waits for a timer.

Source: `ReplicationControlManager` of Apache Kafka 4.3, for the events.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from klamm.broker.time_slices import Work, finish_in_steps
from klamm.metadata.image import NO_BROKER
from klamm.metadata.replicas.partition_change import Election
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.image import MetadataImage
    from klamm.metadata.service import MetadataService

__all__ = ["Controller"]

_logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_BALANCED_AT_ONCE: Final = 1000
"""Number of leaders that move in one turn, as in Kafka (`maxElectionsPerImbalance`)."""
_BETWEEN_TURNS_S: Final = 0.01
"""Kafka's time between two turns when there is more to balance (`maybeScheduleNextBalancePartitionLeaders`)."""
_PARTITIONS_PER_STEP: Final = 500


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
            try:
                count = await self._balance()
            except Exception as error:
                _logger.warning(
                    "leaders can't be balanced, another attempt follows: %s",
                    error,
                    exc_info=not isinstance(error, KafkaError),
                )
            else:
                if count:
                    _logger.info("the controller has elected the preferred leaders of %d partitions", count)

    async def _balance(self) -> int:
        """Elects the preferred leaders of all partitions that have another one, and returns their number.

        Each partition is tried once, so that one whose election fails does not keep the others waiting. The decisions
        are made on the newest image.
        """
        if not self._balances:
            return 0
        wanted = await finish_in_steps(_without_preferred_leader(self._metadata.image))
        count = 0
        for start in range(0, len(wanted), _BALANCED_AT_ONCE):
            if start:
                await asyncio.sleep(_BETWEEN_TURNS_S)
            if not self._balances:
                break
            some = wanted[start : start + _BALANCED_AT_ONCE]
            outcomes = await self._metadata.replicas.elect(some, Election.PREFERRED)
            count += sum(code is ErrorCode.NONE for code, _ in outcomes)
        return count

    @property
    def _balances(self) -> bool:
        return self._metadata.image.controller_id == self._node_id and self._config().auto_leader_rebalance_enable


def _without_preferred_leader(image: MetadataImage) -> Work[list[TopicPartition]]:
    """Finds the partitions that another replica leads although the preferred one is in sync."""
    found: list[TopicPartition] = []
    partitions = ((topic.name, partition) for topic in image.topics.values() for partition in topic.partitions)
    for seen, (topic, partition) in enumerate(partitions, 1):
        if partition.leader not in (NO_BROKER, partition.replicas[0]) and partition.replicas[0] in partition.isr:
            found.append(TopicPartition(topic, partition.index))
        if seen % _PARTITIONS_PER_STEP == 0:
            yield None
    return found
