"""Cut connections between the brokers of a test's cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from klamm.broker.network.peer_connections import TcpPeerConnections
from klamm.broker.services.peers.peers import PeerConnection
from klamm.client.config import Address
from klamm.client.errors import ConnectionFailed

__all__ = ["CuttableConnections", "Cuts"]


class Cuts:
    """Which broker can't reach which. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cut: set[tuple[int, int]] = set()
        self._open: list[tuple[int, int, asyncio.AbstractEventLoop, PeerConnection]] = []

    def cut(self, source: int, target: int) -> None:
        """Breaks the connections from one broker to another, and refuses new ones."""
        with self._lock:
            self._cut.add((source, target))
            for one, other, loop, connection in self._open:
                if (one, other) == (source, target) and not loop.is_closed():
                    loop.call_soon_threadsafe(connection.close)
            self._open = [each for each in self._open if each[:2] != (source, target)]

    def heal(self, source: int, target: int) -> None:
        """Lets new connections through again."""
        with self._lock:
            self._cut.discard((source, target))

    def heal_all(self) -> None:
        """Lets all connections through again."""
        with self._lock:
            self._cut.clear()

    def check(self, source: int, target: int, address: Address) -> None:
        """Raises ConnectionFailed if the connection is cut."""
        if (source, target) in self._cut:
            raise ConnectionFailed(f"no connection to {address[0]}:{address[1]}: the test has cut it")

    def add(self, source: int, target: int, connection: PeerConnection, address: Address) -> None:
        """Notes an open connection of the running event loop. Raises ConnectionFailed if it has been cut meanwhile."""
        with self._lock:
            try:
                self.check(source, target, address)
            except ConnectionFailed:
                connection.close()
                raise
            self._open = [each for each in self._open if not each[3].is_closed]
            self._open.append((source, target, asyncio.get_running_loop(), connection))


class CuttableConnections:
    """Implements `OpenPeerConnection` for one broker: by TCP, unless the test has cut the connection."""

    def __init__(
        self, source: int, broker_at: Callable[[Address], int | None], cuts: Cuts, connections: TcpPeerConnections
    ) -> None:
        """Creates the port of broker `source`. `broker_at` returns which broker listens at an address."""
        self._source = source
        self._broker_at = broker_at
        self._cuts = cuts
        self._connections = connections

    async def __call__(self, address: Address, client_id: str, /) -> PeerConnection:
        """Returns an open connection. Raises ConnectionFailed."""
        target = self._broker_at(address)
        if target is None:
            return await self._connections(address, client_id)
        self._cuts.check(self._source, target, address)
        connection = await self._connections(address, client_id)
        self._cuts.add(self._source, target, connection, address)
        return connection
