"""The listening socket, and the state that its connections share: scratch buffer, limits, and advertised address.

A listener binds its socket before the broker registers, because the registration contains the port, and accepts
connections only after the broker's services have started. Until then, clients can't connect.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.network.client_connection import Admission, Connection
from klamm.broker.network.codec_route import COPIED_FRAME_BYTES
from klamm.broker.network.request_memory import RequestMemory
from klamm.broker.network.unsent_answers import UnsentAnswers

if TYPE_CHECKING:
    from klamm.broker.network.dispatch import Dispatcher

__all__ = ["Listener"]

_logger = logging.getLogger(__name__)

_SCRATCH_BYTES: Final = COPIED_FRAME_BYTES
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})


class Listener:
    """Accepts Kafka clients on one address. `name` is the name of the listener, as in the key `listeners`."""

    def __init__(
        self,
        dispatcher: Dispatcher | None = None,
        *,
        host: str,
        port: int,
        name: str = "PLAINTEXT",
        advertised: tuple[str, int] | None,
        maximum_frame_bytes: int,
        maximum_connections: int,
        maximum_connections_per_host: int,
        backlog: int,
        maximum_idle_s: float,
        request_memory: RequestMemory | None = None,
        unsent: UnsentAnswers | None = None,
    ) -> None:
        self.name = name
        self._dispatcher = dispatcher
        self._host = host
        self._port = port
        self._advertised = advertised
        self._maximum_frame_bytes = maximum_frame_bytes
        self._maximum_connections = maximum_connections
        self._maximum_connections_per_host = maximum_connections_per_host
        self._backlog = backlog
        self._maximum_idle_s = maximum_idle_s
        # Dictionaries have an order, so that a simulated stop is repeated exactly.
        self._unfinished: dict[asyncio.Task[Any], None] = {}
        self._is_stopping = False
        self._connections: dict[Connection, None] = {}
        self._connections_of: dict[str, int] = {}
        self._held: dict[Connection, None] = {}
        self._server: asyncio.Server | None = None
        self._reaper: asyncio.TimerHandle | None = None
        self.loop = asyncio.get_running_loop()
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self.request_memory = request_memory if request_memory is not None else RequestMemory()
        self.unsent = unsent if unsent is not None else UnsentAnswers()

    async def bind(self) -> tuple[str, int]:
        """Binds the socket and returns its host and port. Clients can't connect yet.

        Raises OSError if the address is in use.
        """
        self._server = await self.loop.create_server(
            self._connection, self._host or None, self._port, backlog=self._backlog, start_serving=False
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self._host, self._port

    async def serve(self, dispatcher: Dispatcher, unsent: UnsentAnswers) -> None:
        """Accepts connections from now on. Raises OSError if another process has begun to listen at the address."""
        assert self._server is not None, "bind comes before"
        self._dispatcher = dispatcher
        self.unsent = unsent
        await self._server.start_serving()
        if any(each.fileno() < 0 for each in self._server.sockets):
            # uvloop closes a socket that can't listen, and raises nothing.
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._schedule_reaper()

    def _connection(self) -> Connection:
        assert self._dispatcher is not None
        return Connection(self, self._dispatcher, self._maximum_frame_bytes)

    @property
    def advertised_address(self) -> tuple[str, int]:
        """The address for clients that know only the registration: the advertised one, else the bound one.

        A wildcard is no address for clients, so it becomes `localhost`.
        """
        return self.advertised_to("localhost", self._port)

    def release(self) -> None:
        """Closes the socket of a listener that has not served; does nothing after `stop`."""
        if self._server is not None:
            self._server.close()

    def disconnect(self) -> None:
        """Stops accepting connections, and closes every connection before it reads or answers another request."""
        self._is_stopping = True
        if self._reaper is not None:
            self._reaper.cancel()
        if self._server is not None:
            self._server.close()
        for connection in (*self._held, *self._connections):
            connection.close()
        self._held.clear()

    async def stop(self) -> None:
        """Stops accepting connections, closes every connection and cancels the unfinished tasks of handlers."""
        self.disconnect()
        if self._server is not None:
            await self._server.wait_closed()
        for task in tuple(self._unfinished):
            task.cancel()
        await asyncio.gather(*self._unfinished, return_exceptions=True)

    def advertised_to(self, reached_host: str, reached_port: int) -> tuple[str, int]:
        """Returns the address to which a client should reconnect that reached the broker at this address."""
        if self._advertised is not None:
            return self._advertised
        if self._host in _WILDCARDS:
            return reached_host, reached_port
        return self._host, self._port

    def limit_connections(self, maximum: int, maximum_per_host: int) -> None:
        """Changes the connection limits. Open connections stay."""
        self._maximum_connections = maximum
        self._maximum_connections_per_host = maximum_per_host
        self._let_in()

    def admit(self, connection: Connection) -> Admission:
        """Decides whether a new connection is served, held or refused, and counts it.

        As in Kafka, a connection beyond `max.connections` is held until another one is closed. At most `backlog`
        connections are held. A connection beyond `max.connections.per.ip` is refused.
        """
        assert connection.info is not None
        if len(self._connections) >= self._maximum_connections:
            if len(self._held) < self._backlog:
                self._held[connection] = None
                return Admission.LATER
            return self._refuse(connection)
        host = connection.info.client_host
        of_host = self._connections_of.get(host, 0)
        if of_host >= self._maximum_connections_per_host:
            return self._refuse(connection)
        self._connections[connection] = None
        self._connections_of[host] = of_host + 1
        return Admission.NOW

    def _refuse(self, connection: Connection) -> Admission:
        _logger.warning(
            "refusing a connection of %s: %d are open, %d wait",
            connection.peer,
            len(self._connections),
            len(self._held),
        )
        return Admission.REFUSED

    def _let_in(self) -> None:
        while self._held and len(self._connections) < self._maximum_connections:
            connection = next(iter(self._held))
            del self._held[connection]
            if self.admit(connection) is Admission.NOW:
                connection.let_in()
            else:
                connection.close()

    def forget(self, connection: Connection) -> None:
        """Stops counting a closed connection, and lets in held ones."""
        self.request_memory.forget(connection)
        self._held.pop(connection, None)
        if connection not in self._connections or connection.info is None:
            return
        del self._connections[connection]
        host = connection.info.client_host
        self._connections_of[host] -= 1
        if not self._connections_of[host]:
            del self._connections_of[host]
        self._let_in()

    def let_finish(self, task: asyncio.Task[Any]) -> None:
        """Keeps the task of a handler whose client has disconnected, until the task ends."""
        if self._is_stopping:
            task.cancel()
        self._unfinished[task] = None
        task.add_done_callback(lambda done: self._unfinished.pop(done, None))

    def _schedule_reaper(self) -> None:
        self._reaper = self.loop.call_later(max(1.0, self._maximum_idle_s / 10), self.close_idle)

    def close_idle(self) -> None:
        """Closes connections that have been idle for `connections.max.idle.ms`; a negative value is no limit."""
        if self._maximum_idle_s < 0:
            return
        oldest_s = self.loop.time() - self._maximum_idle_s
        for connection in tuple(self._connections):
            if connection.last_active_s < oldest_s and not connection.is_busy and not connection.is_reading_on():
                connection.close()
        self._schedule_reaper()
