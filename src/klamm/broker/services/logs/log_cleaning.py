"""Runs the log cleaner: looks for a log that is due, cleans it, and rests when there is none.

The event loop decides and swaps segments. Separate threads of the cleaner read and write.

Source: `LogCleaner.CleanerThread` of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from klamm.config.broker_config import BrokerConfig
    from klamm.protocol.types import Millis
    from klamm.storage.cleaner.cleaning import Cleaning, Steps
    from klamm.storage.cleaner.log_cleaner import LogCleaner

__all__ = ["LogCleaning"]

_logger = logging.getLogger(__name__)

_LOOK_FOR_S: Final = 0.002
"""Seconds that the cleaner looks at logs before the loop runs other tasks."""

_SHORTEST_REST_S: Final = 0.01


class LogCleaning:
    """The cleaning tasks, as many as `log.cleaner.threads`, from `start` to `stop`."""

    def __init__(self, cleaner: LogCleaner, config: BrokerConfig, clock: Callable[[], Millis]) -> None:
        self._cleaner = cleaner
        self._config = config
        self._clock = clock
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._wanted = 0
        self._threads: ThreadPoolExecutor | None = None
        self._earlier_threads: list[ThreadPoolExecutor] = []
        """The threads of earlier counts. They end after their current step."""
        self._resting = asyncio.Event()

    def start(self) -> None:
        """Starts the cleaning tasks, unless `log.cleaner.enable` is false."""
        if not self._config.log_cleaner_enable:
            _logger.info("compacted topics are not cleaned: log.cleaner.enable is false")
            return
        self._set_count(self._config.log_cleaner_threads)

    def configure(self, config: BrokerConfig) -> None:
        """Applies a new configuration. Cleanings in progress keep the old one."""
        self._config = config
        self._cleaner.configure(config)
        if self._wanted not in (0, config.log_cleaner_threads):
            self._set_count(config.log_cleaner_threads)
        self._resting.set()

    def _set_count(self, count: int) -> None:
        # A surplus task finishes its current cleaning and then ends.
        self._wanted = count
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._earlier_threads.append(self._threads)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="klamm-cleaner")
        loop = asyncio.get_running_loop()
        for number in range(count):
            task = self._tasks.get(number)
            if task is None or task.done():
                self._tasks[number] = loop.create_task(self._work(number))

    async def stop(self) -> None:
        """Aborts the cleanings in progress, and waits for the end of their tasks and threads."""
        self._wanted = 0
        self._resting.set()
        tasks = list(self._tasks.values())
        while any(not task.done() for task in tasks):
            # A cleaning that begins after this call is aborted by the next one.
            self._cleaner.abort_all()
            await asyncio.wait(tasks, timeout=0.05)
        self._tasks.clear()
        if self._threads is not None:
            for threads in (*self._earlier_threads, self._threads):
                threads.shutdown()
            self._threads = None
            self._earlier_threads.clear()

    async def _work(self, number: int) -> None:
        while number < self._wanted:
            try:
                cleaning = await self._look()
                has_cleaned = cleaning is not None and await self._run(self._cleaner.clean(cleaning, self._clock))
            except Exception:
                _logger.exception("the log cleaner failed; it retries in %d ms", self._config.log_cleaner_backoff_ms)
                has_cleaned = False
            if not has_cleaned:
                await self._rest()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(max(_SHORTEST_REST_S, self._config.log_cleaner_backoff_ms / 1000)):
                await self._resting.wait()
        except TimeoutError:
            return
        if self._wanted:
            self._resting.clear()

    async def _look(self) -> Cleaning | None:
        loop = asyncio.get_running_loop()
        best = None
        until = loop.time() + _LOOK_FOR_S
        for best in self._cleaner.look(self._clock()):  # noqa: B007 - the last one is the dirtiest log
            if loop.time() >= until:
                await asyncio.sleep(0)
                until = loop.time() + _LOOK_FOR_S
        return best

    async def _run(self, steps: Steps) -> bool:
        loop = asyncio.get_running_loop()
        try:
            step = next(steps)
            while True:
                try:
                    outcome = await loop.run_in_executor(self._threads, step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as stop:
            return bool(stop.value)
