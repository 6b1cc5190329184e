"""One machine: the real services of a broker on the simulated disk, and how they start, stop and crash."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.simulation.brokers.asyncio_loop import ProcessLoop, Threads
from tests.simulation.brokers.metadata_store import MemoryStore, StoredMetadata
from tests.simulation.brokers.network import Door, Network
from tests.simulation.logs.device import Device, Strike
from tests.simulation.loop import Process

from klamm.broker import time_slices
from klamm.broker.network import client_connection
from klamm.broker.network.dispatch import Dispatcher
from klamm.broker.network.listener import Listener
from klamm.broker.partitions import fsync_batcher, partition_registry
from klamm.broker.services import coordinator_ports, log_cleaning
from klamm.broker.services.broker_services import BrokerServices
from klamm.config.broker_config import BrokerConfig
from klamm.metadata import planning
from klamm.protocol.types import Millis, TopicPartition
from klamm.storage import log_directory, log_opening

if TYPE_CHECKING:
    from klamm.broker.handler_context import BrokerContext
    from klamm.metadata.metadata_store import MetadataStore
    from klamm.storage.log import Log

__all__ = ["START_MS", "Machine"]

START_MS = 1_600_000_000_000
"""The time of the wall clock when the world begins."""
_OPEN_FILES = 64
_POOLS = (log_directory, log_opening, fsync_batcher, log_cleaning, coordinator_ports)
_CLOCKS = (client_connection, partition_registry, planning, time_slices)
"""Modules that interrupt their work when one step has taken too long."""


class Machine:
    """The broker's process, and the disk and the metadata that outlast it."""

    def __init__(
        self,
        root: Path,
        device: Device,
        network: Network,
        config: BrokerConfig,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.device = device
        self.network = network
        self.config = config
        self.services: BrokerServices | None = None
        self.thread_ms: Callable[[str], float] = lambda name: 0.0
        """Returns the duration of the next job of a thread pool."""
        self.step_ms = 0.0
        """Every read of the clock advances it by so much. With a few milliseconds, divided work takes many steps."""
        self._root = root
        self._events = network.events
        self._failed = failed
        self._metadata = StoredMetadata()
        self._loop: ProcessLoop | None = None
        self._process: Process | None = None
        self._clock_ms = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Replaces files, threads, clocks and random ids by those of the world while the context is open."""
        random = Random(self._events.random.random())
        with ExitStack() as stack:
            stack.enter_context(self.device.attached())
            for module in _POOLS:
                stack.enter_context(patch.object(module, "ThreadPoolExecutor", self._threads))
            for module in _CLOCKS:
                stack.enter_context(patch.object(module, "monotonic", self._monotonic))
            stack.enter_context(patch("time.monotonic", self._monotonic))
            stack.enter_context(patch.object(uuid, "uuid4", lambda: uuid.UUID(int=random.getrandbits(128), version=4)))
            yield

    def _threads(self, max_workers: int | None = None, thread_name_prefix: str = "") -> Threads:
        assert self._loop is not None
        return Threads(self._loop, thread_name_prefix)

    def _monotonic(self) -> float:
        self._clock_ms += self.step_ms
        return (self._events.now_ms + self._clock_ms) / 1000

    def now_ms(self) -> Millis:
        """Returns the time of the wall clock."""
        return Millis(START_MS + int(self._events.now_ms))

    @property
    def is_alive(self) -> bool:
        """Whether the broker's process exists."""
        return self._process is not None

    @property
    def context(self) -> BrokerContext | None:
        """The context of the broker's handlers; None while the broker does not serve."""
        return self.services.context if self.services is not None and self.network.door is not None else None

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """All logs of the process."""
        return {} if self.services is None else self.services.log_directory.logs

    # Starts, stops and crashes

    def start(self, started: Callable[[], None]) -> None:
        """Starts a new process, and calls `started` when the broker serves."""
        self.device.begin_life()
        self._set_times()
        self._process = process = Process(self._events, is_broker=True)
        self._loop = loop = ProcessLoop(self._events, process, self._failed, thread_ms=self.thread_ms)
        self.services = services = BrokerServices(self.config, self.now_ms, open_files=_OPEN_FILES)

        async def open_store() -> MetadataStore:
            return MemoryStore(self._metadata, latency_s=0.002)

        async def serve() -> None:
            context = await services.start(open_store)
            listener = Listener(
                Dispatcher(context),
                host="127.0.0.1",
                port=9092,
                advertised=None,
                maximum_frame_bytes=self.config.socket_request_max_bytes,
                maximum_connections=self.config.max_connections,
                maximum_connections_per_host=self.config.max_connections_per_ip,
                backlog=50,
                maximum_idle_s=self.config.connections_max_idle_ms / 1000,
                unsent=context.unsent_answers,
            )
            self.network.door = Door(loop, listener, Dispatcher(context))
            started()

        loop.run(self._begin, serve)

    def _begin(self, coroutine: Callable[[], object]) -> None:
        """Runs a coroutine; the world receives its exceptions."""
        assert self._loop is not None
        task = self._loop.create_task(coroutine())
        task.add_done_callback(lambda done: self._failed(error) if (error := done.exception()) is not None else None)

    def _set_times(self) -> None:
        """Gives all files the world's time, so that their age does not depend on the real machine."""
        with self.device.passing():
            for folder, _, names in os.walk(self._root):
                for name in names:
                    os.utime(os.path.join(folder, name), ns=(self.now_ms() * 1_000_000,) * 2)

    def stop(self, stopped: Callable[[], None]) -> None:
        """Stops the broker cleanly, and then calls `stopped`."""
        services, door = self.services, self.network.door
        assert services is not None
        assert self._loop is not None

        async def stop() -> None:
            if door is not None:
                await door.listener.stop()
            await services.stop()
            stopped()

        self._loop.run(self._begin, stop)

    def end(self, strike: Strike | None) -> None:
        """Ends the process. `strike` is the cause; it is None if the device was struck before, or after a clean stop of
        the broker.
        """
        if self._process is None:
            return
        if strike is not None:
            self.device.strike(strike)
        self._process.kill()
        self.network.close_door()
        assert self._loop is not None
        if self.services is not None:
            self.services._stops.pop_all()  # Closing a coroutine must not continue a stop in progress.
        self._loop.end()
        self._let_go_of_files()
        self._process = self._loop = self.services = None

    def _let_go_of_files(self) -> None:
        """Closes the files of an ended process, as the kernel does."""
        if self.services is None:
            return
        directory = self.services.log_directory
        logs = list(directory.logs.values())
        directory._background.shutdown(wait=False, cancel_futures=True)
        directory.close(clean=False)
        for log in logs:
            log._segments.close()
        for file in list(directory._services.pool._open):
            file.release()
