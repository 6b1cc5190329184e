"""The periodic work of a broker: retention, flushes, checkpoints, expiry of fetch sessions.

There may be many thousands of logs, so the work runs for some milliseconds at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from klamm.broker.partitions.fetch_sessions import FetchSessionCache
    from klamm.broker.partitions.fsync_batcher import FsyncBatcher
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import Millis
    from klamm.storage.directory.log_directory import LogDirectory
    from klamm.storage.log.log import Log

__all__ = ["Housekeeping"]

_logger = logging.getLogger(__name__)

_FLUSH_CHECK_INTERVAL_MS: Final = 1000
_SESSIONS_CHECK_INTERVAL_MS: Final = 10_000
_NEVER_MS: Final = 2**62
"""From this `flush.ms` on, logs are not flushed by time. Kafka's default is the largest long: the system decides."""
_LOWEST_INTERVAL_S: Final = 0.1
_HOUSEKEEPING_STEP_S: Final = 0.003
"""Seconds of work before the event loop runs other tasks."""


def _nothing() -> None:
    """Does nothing after a sync: no request waits for it."""


async def _take(steps: Iterable[None]) -> None:
    """Runs the steps, for some milliseconds at a time."""
    step_ends = time.monotonic() + _HOUSEKEEPING_STEP_S
    for _ in steps:
        if time.monotonic() >= step_ends:
            await asyncio.sleep(0)
            step_ends = time.monotonic() + _HOUSEKEEPING_STEP_S


class Housekeeping:
    """The periodic work on one log directory, from `start` to `stop`."""

    def __init__(self, log_directory: LogDirectory, clock: Callable[[], Millis]) -> None:
        self._log_directory = log_directory
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self,
        config: BrokerConfig,
        partitions: PartitionRegistry,
        fetch_sessions: FetchSessionCache,
        metadata: MetadataService,
        fsync_batcher: FsyncBatcher | None,
    ) -> None:
        """Starts all periodic tasks. `klamm.fsync=interval` requires `fsync_batcher`."""

        async def keep_house() -> None:
            await _take(self._log_directory.housekeep_in_steps(self._clock()))
            partitions.retry_failures(metadata.image)

        self._every(config.log_retention_check_interval_ms, keep_house, first_ms=config.log_initial_task_delay_ms)
        self._every(_FLUSH_CHECK_INTERVAL_MS, lambda: _take(self._flush_due()))
        self._every(config.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        self._every(_SESSIONS_CHECK_INTERVAL_MS, lambda: _take(fetch_sessions.expire(self._clock())))
        if config.klamm_fsync == "interval":
            assert fsync_batcher is not None
            self._every(config.klamm_fsync_interval_ms, lambda: _take(self._sync_all(fsync_batcher)))

    def checkpoint_soon(self) -> None:
        """Writes the checkpoint files now, in addition to the periodic writes."""
        self._begin(self._checkpoint())

    def stop(self) -> None:
        """Cancels all tasks."""
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _every(
        self, interval_ms: int, action: Callable[[], Coroutine[Any, Any, None]], *, first_ms: int | None = None
    ) -> None:
        async def repeat() -> None:
            await asyncio.sleep((interval_ms if first_ms is None else first_ms) / 1000)
            while True:
                try:
                    await action()
                except Exception:
                    _logger.exception("housekeeping failed; it is tried again in %d ms", interval_ms)
                await asyncio.sleep(max(_LOWEST_INTERVAL_S, interval_ms / 1000))

        self._begin(repeat())

    def _flush_due(self) -> Iterator[None]:
        now_ms = self._clock()
        for log in self._logs():
            if log.config.flush_ms < _NEVER_MS:
                log.durability.flush_if_due(now_ms)
            yield

    def _sync_all(self, fsync_batcher: FsyncBatcher) -> Iterator[None]:
        for log in self._logs():
            if log.log_end_offset > log.recovery_point:
                fsync_batcher.request(log, _nothing)
            yield

    def _logs(self) -> Iterator[Log]:
        """Yields all logs that are online. Logs may be created and deleted between two of them."""
        for log in list(self._log_directory.logs.values()):
            if not log.is_offline and self._log_directory.logs.get(log.topic_partition) is log:
                yield log

    async def _checkpoint(self) -> None:
        await _take(self._log_directory.checkpoint_in_steps())
