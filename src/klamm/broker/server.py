"""One broker: its services, the listeners through which clients reach them, and its metrics page.

The listeners bind their sockets first, because the broker registers their ports. Then the services start
(`services/broker_services.py`). Only then the listeners accept connections, so any client that can connect gets
responses.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.broker.network.dispatch import Dispatcher
from klamm.broker.network.listener import Listener
from klamm.broker.network.peer_connections import TcpPeerConnections
from klamm.broker.network.request_memory import RequestMemory
from klamm.broker.services.broker_services import BrokerServices
from klamm.broker.services.cluster.directory_of_cluster import refuse_cluster_directory
from klamm.broker.start_failure import address_failure, directory_failure
from klamm.config.broker_config import BrokerConfig
from klamm.errors import KlammError
from klamm.metadata.sqlite_store import SqliteStore
from klamm.protocol.types import Millis
from klamm.storage.directory.lost_metadata import is_lost, refuse_lost_metadata
from klamm.storage.directory.metadata_files import METADATA_FILE
from klamm.storage.directory.worker_directories import WORKERS_FOLDER

if TYPE_CHECKING:
    from klamm.broker.handler_context import BrokerContext
    from klamm.broker.services.peers.peers import OpenPeerConnection
    from klamm.client.config import Address
    from klamm.config.listeners import Listener as ListenerAddress
    from klamm.metadata.image import MetadataImage
    from klamm.metadata.metadata_store import MetadataStore

__all__ = ["BrokerServer", "now_ms"]

_logger = logging.getLogger(__name__)


def now_ms() -> Millis:
    """Returns the wall clock in milliseconds since the epoch."""
    return Millis(time.time_ns() // 1_000_000)


async def _open_store(directory: Path, node_id: int) -> SqliteStore:
    """Opens the metadata store of a single broker. Raises MetadataLost instead of replacing a lost file with a new
    one.

    If there were several workers before, the broker takes over their partitions.
    """
    path = directory / METADATA_FILE
    refuse_cluster_directory(directory)
    if is_lost(path):
        refuse_lost_metadata(directory)
    store = await SqliteStore.open(path)
    if node_id == BrokerConfig().node_id and (directory / WORKERS_FOLDER).exists():
        from klamm.broker.workers.redistribution import redistribute

        try:
            await redistribute(store, directory, workers=1, is_locked=True)
        except BaseException:
            await store.close()
            raise
    return store


@contextmanager
def _explained(address: ListenerAddress) -> Iterator[None]:
    """Explains why the broker can't listen at the address. Raises StartFailed."""
    try:
        yield
    except OSError as error:
        raise address_failure(error, address.host, address.port) from error


class BrokerServer:
    """A broker that serves from `start` to `stop`, on the loop that started it."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Callable[[], Millis] = now_ms,
        *,
        open_files: int | None = None,
        open_store: Callable[[], Awaitable[MetadataStore]] | None = None,
        open_peer_connection: OpenPeerConnection | None = None,
        before_serving: Callable[[BrokerContext], Awaitable[None]] | None = None,
        on_unregistered: Callable[[], None] | None = None,
    ) -> None:
        """Creates the broker. `open_files` bounds the descriptors of log files; None: half of the process's limit.

        `open_store` opens the metadata store; None: the file in the data directory, for a single broker.
        `open_peer_connection` opens the connections to other brokers; None: by TCP. `before_serving` is awaited when
        the broker is registered, before it accepts connections. `on_unregistered` is called when the running broker was
        removed from the cluster: `stop` must follow. A single broker never is.
        """
        self.services = BrokerServices(
            config,
            clock,
            open_files=open_files,
            open_peer_connection=open_peer_connection or TcpPeerConnections(config),
            on_unregistered=on_unregistered,
        )
        self._clock = clock
        self._before_serving = before_serving
        self._open_store = open_store or partial(_open_store, Path(config.data_directory), config.node_id)
        self._listeners: list[Listener] = []
        self._stops = AsyncExitStack()

    @property
    def config(self) -> BrokerConfig:
        """The current configuration of the broker."""
        return self.services.config

    @property
    def context(self) -> BrokerContext | None:
        """The context for handlers; None until the broker has started."""
        return self.services.context

    async def start(self) -> list[tuple[str, int]]:
        """Starts the services, listeners and metrics page, and returns the addresses of the listeners.

        Raises DataDirectoryInUse if another broker uses the folder, StartFailed if an address is in use or the folder
        can't be written, and other KlammErrors.
        """
        addresses = await self._bind(self.config)
        context = await self._start_services()
        context.metadata.subscribe(self._limit_connections)
        if self._before_serving is not None:
            await self._before_serving(context)
        await self._listen(context)
        if self.config.klamm_metrics_listener:
            self._serve_metrics(self.config.klamm_metrics_listener, context)
        return addresses

    async def stop(self) -> None:
        """Hands partitions over to other brokers, and stops the metrics page, the listeners, then the services.

        Safe after a start that failed halfway, and safe to call twice.
        """
        await self.services.hand_over()
        await self._stops.aclose()

    def disconnect(self) -> None:
        """Lets no client get another answer; `kill` or `stop` follows."""
        for listener in self._listeners:
            listener.disconnect()

    async def kill(self) -> None:
        """Ends the broker as if its process had been killed: no client gets another answer, and the next start recovers
        the logs. What was written to the files stays.
        """
        await self._stop_listening()
        await self.services.stop(is_kill=True)
        await self._stops.aclose()

    async def _start_services(self) -> BrokerContext:
        self._stops.push_async_callback(self.services.stop)
        directory = Path(self.config.data_directory)
        try:
            return await self.services.start(self._open_store, self._endpoints())
        except (KlammError, OSError) as error:
            failure = directory_failure(error, directory)
            if failure is None:
                raise
            raise failure from error

    def _endpoints(self) -> dict[str, Address]:
        return {listener.name: listener.advertised_address for listener in self._listeners}

    async def _bind(self, config: BrokerConfig) -> list[tuple[str, int]]:
        self._stops.callback(self._release_sockets)
        request_memory = RequestMemory(config.queued_max_request_bytes)
        addresses = []
        for index, address in enumerate(config.listeners):
            advertised_address = (
                config.advertised_listeners[index] if index < len(config.advertised_listeners) else None
            )
            listener = Listener(
                name=address.name,
                host=address.host,
                port=address.port,
                advertised=(advertised_address.host, advertised_address.port)
                if advertised_address is not None
                else None,
                maximum_frame_bytes=config.socket_request_max_bytes,
                maximum_connections=config.max_connections,
                maximum_connections_per_host=config.max_connections_per_ip,
                backlog=config.socket_listen_backlog_size,
                maximum_idle_s=config.connections_max_idle_ms / 1000,
                request_memory=request_memory,
            )
            self._listeners.append(listener)
            with _explained(address):
                addresses.append(await listener.bind())
        return addresses

    async def _listen(self, context: BrokerContext) -> None:
        # The connections close before the services stop.
        self._stops.push_async_callback(self._stop_listening)
        dispatcher = Dispatcher(context)
        for listener, address in zip(self._listeners, self.config.listeners, strict=True):
            with _explained(address):
                await listener.serve(dispatcher, context.unsent_answers)

    async def _stop_listening(self) -> None:
        for listener in self._listeners:
            await listener.stop()

    def _release_sockets(self) -> None:
        for listener in self._listeners:
            listener.release()
        self._listeners.clear()

    def _limit_connections(self, old: MetadataImage, new: MetadataImage) -> None:
        """Applies the connection limits of the current configuration."""
        if old.configs is not new.configs:
            for listener in self._listeners:
                listener.limit_connections(self.config.max_connections, self.config.max_connections_per_ip)

    def _serve_metrics(self, address: str, context: BrokerContext) -> None:
        from klamm.broker.replication.replication_metrics import replication_figures
        from klamm.broker.services.metrics.cleaner_metrics import cleaner_figures
        from klamm.broker.services.metrics.controller_metrics import gather_controller_figures
        from klamm.broker.services.metrics.coordinator_metrics import coordinator_figures
        from klamm.broker.services.metrics.group_metrics import gather_group_figures
        from klamm.broker.services.metrics.metrics import Figure, MetricsListener, parse_address

        async def gather() -> Sequence[Figure]:
            cleaner = cleaner_figures(context.log_directory.cleaner.state(), self._clock())
            coordinators = coordinator_figures(context.groups, context.transactions)
            session = Figure(
                "klamm_metadata_session",
                "1 while the session with the metadata store lasts; 0 after its loss, until the broker ends soon.",
                (),
                [((), float(self.services.has_session))],
            )
            replicas = replication_figures(context.partitions, self.services.replication)
            controller = await gather_controller_figures(context.metadata.image, context.node_id)
            groups = await gather_group_figures(context.groups)
            return [*groups, *coordinators, *cleaner, *replicas, *controller, session]

        addresses = (*context.config.listeners, *context.config.advertised_listeners)
        names = {each.host for each in addresses if each.host}
        listener = MetricsListener(*parse_address(address), gather, names)
        self._stops.push_async_callback(asyncio.to_thread, listener.stop)
        _logger.info("metrics are served at port %d of %s, as /metrics", listener.start(), address)
