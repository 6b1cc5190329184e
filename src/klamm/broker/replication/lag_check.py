"""Looks regularly for in-sync followers that lag too far behind, so that they don't hold up commits for ever.

Source: `ReplicaManager.maybeShrinkIsr` of Apache Kafka 4.3, which runs twice in each `replica.lag.time.max.ms`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from klamm.broker.time_slices import STEP_S

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.metadata.image import MetadataImage

__all__ = ["LagCheck"]

_logger = logging.getLogger(__name__)

_CHECKS_IN_MAX_LAG: Final = 2


class LagCheck:
    """The regular check of all partitions that this broker leads, from `start` to `stop`."""

    def __init__(self, partitions: PartitionRegistry, max_lag_ms: Callable[[], int]) -> None:
        self._partitions = partitions
        self._max_lag_ms = max_lag_ms
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._is_due = asyncio.Event()

    def start(self) -> None:
        """Begins the checks."""
        self._task = self._loop.create_task(self._check_regularly())

    def stop(self) -> None:
        """Ends the checks."""
        if self._task is not None:
            self._task.cancel()

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Checks soon after a broker has come or gone."""
        if old.brokers is not new.brokers:
            self._is_due.set()

    async def _check_regularly(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._max_lag_ms() / 1000 / _CHECKS_IN_MAX_LAG):
                    await self._is_due.wait()
            except TimeoutError:
                pass
            self._is_due.clear()
            try:
                await self._check_all()
            except Exception:
                # Without this task no follower would leave the in-sync replicas any more.
                _logger.exception("the lag of followers can't be checked, another attempt follows")

    async def _check_all(self) -> None:
        step_ends = monotonic() + STEP_S
        for led in list(self._partitions.by_name.values()):
            for partition in led.partitions:
                if partition is None or partition.followers is None or not partition.accepts_writes:
                    continue
                partition.followers.check_lag(partition)
                partition.reconsider_high_watermark()
                if monotonic() >= step_ends:
                    await asyncio.sleep(0)
                    step_ends = monotonic() + STEP_S
