"""One machine: the real services of a broker on the simulated disk, and how they start, stop and crash."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.simulation.brokers.asyncio_loop import ProcessLoop, Threads
from tests.simulation.brokers.clients.client import ClientConnection
from tests.simulation.brokers.network import Door, Network
from tests.simulation.logs.device import Device, Strike
from tests.simulation.loop import EventLoop, Process

from klamm.broker.network.dispatch import Dispatcher
from klamm.broker.network.listener import Listener
from klamm.broker.partitions import fsync_batcher
from klamm.broker.services.broker_services import BrokerServices
from klamm.broker.services.coordinators import coordinator_ports
from klamm.broker.services.logs import log_cleaning
from klamm.client.config import ClientConfig
from klamm.config.broker_config import BrokerConfig
from klamm.metadata import service
from klamm.protocol.types import Millis, TopicPartition
from klamm.storage.directory import log_directory, log_opening

if TYPE_CHECKING:
    from klamm.broker.handler_context import BrokerContext
    from klamm.broker.services.peers.peers import PeerConnection
    from klamm.client.config import Address
    from klamm.metadata.metadata_store import MetadataStore
    from klamm.storage.log.log import Log

__all__ = ["START_MS", "Machine", "replaced"]

START_MS = 1_600_000_000_000
"""The time of the wall clock when the world begins."""
_OPEN_FILES = 64
_POOLS = (log_directory, log_opening, fsync_batcher, log_cleaning, coordinator_ports)


class Clock:
    """The monotonic clock of all processes. With a step of a few milliseconds, divided work takes many steps."""

    def __init__(self, events: EventLoop, step_ms: float) -> None:
        self._events = events
        self._step_ms = step_ms
        """Every read of the clock advances it by so much."""
        self._ahead_ms = 0.0

    def __call__(self) -> float:
        """Returns the time in seconds."""
        self._ahead_ms += self._step_ms
        return (self._events.now_ms + self._ahead_ms) / 1000


@contextmanager
def replaced(events: EventLoop, disks: AbstractContextManager[None], step_ms: float) -> Iterator[None]:
    """Replaces files, threads, clocks and random ids by those of the world while the context is open."""
    random, monotonic = Random(events.random.random()), Clock(events, step_ms)
    with ExitStack() as stack:
        stack.enter_context(disks)
        for module in _POOLS:
            stack.enter_context(patch.object(module, "ThreadPoolExecutor", _threads))
        for module in _modules_with_clock():
            stack.enter_context(patch.object(module, "monotonic", monotonic))
        stack.enter_context(patch.object(service, "session_time", monotonic))
        stack.enter_context(patch("time.monotonic", monotonic))
        stack.enter_context(patch.object(uuid, "uuid4", lambda: uuid.UUID(int=random.getrandbits(128), version=4)))
        yield


def _modules_with_clock() -> list[ModuleType]:
    """Returns the modules that import the clock by its name; they interrupt their work when a step took too long."""
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("klamm.") and getattr(module, "monotonic", None) is time.monotonic
    ]


def _threads(max_workers: int | None = None, thread_name_prefix: str = "") -> Threads:
    loop = asyncio._get_running_loop()
    assert isinstance(loop, ProcessLoop)
    return Threads(loop, thread_name_prefix)


class Machine:
    """A broker's process, and the disk that outlasts it.

    `connect` returns the session of a new process with the metadata store.
    """

    def __init__(
        self,
        root: Path,
        device: Device,
        network: Network,
        config: BrokerConfig,
        failed: Callable[[BaseException], None],
        *,
        address: Address,
        connect: Callable[[ProcessLoop], Awaitable[MetadataStore]],
    ) -> None:
        self.device = device
        self.network = network
        self.config = config
        self.services: BrokerServices | None = None
        self.address = address
        self.loop: ProcessLoop | None = None
        """The loop of the broker's process."""
        self.thread_ms: Callable[[str], float] = lambda name: 0.0
        """Returns the duration of the next job of a thread pool."""
        self.unregistered: Callable[[], None] | None = None
        """Called when the running broker was removed from the cluster."""
        self._connect = connect
        self._root = root
        self._events = network.events
        self._failed = failed
        self._process: Process | None = None

    def now_ms(self) -> Millis:
        """Returns the time of the wall clock."""
        return Millis(START_MS + int(self._events.now_ms))

    @property
    def is_alive(self) -> bool:
        """Whether the broker's process exists."""
        return self._process is not None

    @property
    def is_serving(self) -> bool:
        """Whether the broker accepts connections."""
        return self.address in self.network.doors

    @property
    def context(self) -> BrokerContext | None:
        """The context of the broker's handlers; None while the broker does not serve."""
        return self.services.context if self.services is not None and self.is_serving else None

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
        self.loop = loop = ProcessLoop(self._events, process, self._failed, thread_ms=self.thread_ms)
        asyncio._set_running_loop(loop)  # type: ignore[arg-type]
        self.services = services = BrokerServices(
            self.config,
            self.now_ms,
            open_files=_OPEN_FILES,
            open_peer_connection=self._open_peer_connection,
            on_unregistered=self.unregistered,
        )

        async def serve() -> None:
            context = await services.start(lambda: self._connect(loop), {"PLAINTEXT": self.address})
            listener = Listener(
                Dispatcher(context),
                host=self.address[0],
                port=self.address[1],
                advertised=None,
                maximum_frame_bytes=self.config.socket_request_max_bytes,
                maximum_connections=self.config.max_connections,
                maximum_connections_per_host=self.config.max_connections_per_ip,
                backlog=50,
                maximum_idle_s=self.config.connections_max_idle_ms / 1000,
                unsent=context.unsent_answers,
            )
            self.network.doors[self.address] = Door(self.address, loop, listener, Dispatcher(context))
            started()

        loop.run(self._begin, serve)

    def _begin(self, coroutine: Callable[[], object]) -> None:
        """Runs a coroutine; the world receives its exceptions."""
        assert self.loop is not None
        task = self.loop.create_task(coroutine())
        task.add_done_callback(lambda done: self._failed(error) if (error := done.exception()) is not None else None)

    async def _open_peer_connection(self, address: Address, client_id: str, /) -> PeerConnection:
        """Implements `OpenPeerConnection` with the simulated network."""
        config = ClientConfig(
            bootstrap_servers=(address,), client_id=client_id, request_timeout_ms=self.config.request_timeout_ms
        )
        assert self.loop is not None
        connection = ClientConnection(self.network, config, {}, address=address, loop=self.loop)
        await connection.open()
        return connection

    def _set_times(self) -> None:
        """Gives all files the world's time, so that their age does not depend on the real machine."""
        with self.device.passing():
            for folder, _, names in os.walk(self._root):
                for name in names:
                    os.utime(os.path.join(folder, name), ns=(self.now_ms() * 1_000_000,) * 2)

    def stop(self, stopped: Callable[[], None]) -> None:
        """Stops the broker cleanly, and then calls `stopped`."""
        services, door = self.services, self.network.doors.get(self.address)
        assert services is not None
        assert self.loop is not None

        async def stop() -> None:
            if door is not None:
                await door.listener.stop()
            await services.stop()
            stopped()

        self.loop.run(self._begin, stop)

    def pause(self) -> None:
        """Stops the process, as SIGSTOP does."""
        if self._process is not None:
            self._process.stop()

    def go_on(self) -> None:
        """Continues a process that was stopped."""
        if self._process is not None and self._process.is_stopped:
            self._process.go_on()

    def end(self, strike: Strike | None) -> None:
        """Ends the process. `strike` is the cause; it is None if the device was struck before, or after a clean stop of
        the broker.
        """
        if self._process is None:
            return
        if strike is not None:
            self.device.strike(strike)
        self._process.kill()
        assert self.loop is not None
        self.network.end(self.loop, self.address)
        if self.services is not None:
            self.services._stops.pop_all()  # Closing a coroutine must not continue a stop in progress.
        self.loop.end()
        self._let_go_of_files()
        self._process = self.loop = self.services = None

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
