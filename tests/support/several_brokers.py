"""Several brokers in one thread of this process, over one metadata store in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from tests.support.ports import free_port

from klamm.broker.network.peer_connections import TcpPeerConnections
from klamm.broker.server import BrokerServer
from klamm.broker.services.peers.peers import PeerConnection
from klamm.client.config import Address
from klamm.client.errors import ConnectionFailed
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import MetadataStore
from klamm.protocol.message import Message

__all__ = ["SeveralBrokers"]

M = TypeVar("M", bound=Message)
R = TypeVar("R")

Fault = Callable[[Message], Literal["request", "answer"] | None]
"""Returns what is lost of a request to another broker, with its connection."""


class SeveralBrokers:
    """Brokers 1 to `count`, each on a port of its own that it keeps."""

    def __init__(
        self,
        folder: Path,
        count: int,
        config: Mapping[str, str] | None = None,
        own: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        """Creates the brokers. `config` has Kafka's keys for all brokers, `own` for some."""
        self.ids = range(1, count + 1)
        self.requests: list[tuple[int, Message]] = []
        """The requests between brokers, each with its sender."""
        self.fault: Fault = lambda request: None
        self._folder = folder
        self._config = config or {}
        self._own = own or {}
        self._ports = {node_id: free_port() for node_id in self.ids}
        self._addresses: dict[int, list[tuple[str, int]]] = {}
        self._servers: dict[int, BrokerServer] = {}
        self._loop = asyncio.new_event_loop()
        self._metadata = MemoryMetadata()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for node_id in self.ids:
            self.start(node_id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for node_id in list(self._servers):
            self.stop(node_id)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self, node_id: int) -> None:
        """Starts a broker, with the data that it had."""
        config = BrokerConfig.load(
            {
                "node.id": str(node_id),
                "log.dirs": str(self._folder / str(node_id)),
                "listeners": f"PLAINTEXT://127.0.0.1:{self._ports[node_id]}",  # a restart keeps the port
                "offsets.topic.num.partitions": str(len(self.ids)),
                "transaction.state.log.num.partitions": str(len(self.ids)),
                **self._config,
                **self._own.get(node_id, {}),
            },
            profile="test",
        )

        async def start() -> None:
            server = BrokerServer(
                config, open_files=64, open_store=self._connect, open_peer_connection=_Network(self, config)
            )
            self._servers[node_id] = server
            self._addresses[node_id] = await server.start()
            self._ports[node_id] = self._addresses[node_id][0][1]

        self.run(start())

    def stop(self, node_id: int) -> None:
        """Stops a broker; it is not live any more when this returns."""
        self.run(self._servers.pop(node_id).stop())

    def server(self, node_id: int) -> BrokerServer:
        """Returns a running broker."""
        return self._servers[node_id]

    def address(self, node_id: int, listener: int = 0) -> str:
        """Returns `host:port` of a listener of a broker."""
        host, port = self._addresses[node_id][listener]
        return f"{host}:{port}"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all running brokers."""
        return ",".join(self.address(node_id) for node_id in self._servers)

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Runs a coroutine on the loop of the brokers, and returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def leaders(self, topic: str) -> list[int]:
        """Returns the leader of each partition of a topic, as a running broker knows it."""
        context = next(iter(self._servers.values())).context
        assert context is not None
        return [partition.leader for partition in context.metadata.image.topics[topic].partitions]

    async def _connect(self) -> MetadataStore:
        return self._metadata.connect()


class _Network:
    """The connections of one broker to the others, by TCP. Loses the answers that the test wants to be lost."""

    def __init__(self, brokers: SeveralBrokers, config: BrokerConfig) -> None:
        self._brokers = brokers
        self._node_id = config.node_id
        self._open = TcpPeerConnections(config)

    async def __call__(self, address: Address, client_id: str, /) -> PeerConnection:
        return _Connection(self._brokers, self._node_id, await self._open(address, client_id))


class _Connection:
    def __init__(self, brokers: SeveralBrokers, node_id: int, below: PeerConnection) -> None:
        self._brokers = brokers
        self._node_id = node_id
        self._below = below

    @property
    def is_closed(self) -> bool:
        return self._below.is_closed

    async def request(self, request: Message, answer: type[M], /) -> M:
        self._brokers.requests.append((self._node_id, request))
        lost = self._brokers.fault(request)
        if lost != "request":
            response = await self._below.request(request, answer)
            if lost is None:
                return response
        self.close()
        raise ConnectionFailed("the test has cut the connection")

    def close(self) -> None:
        self._below.close()
