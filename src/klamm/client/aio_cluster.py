"""One client's asyncio view of one cluster: its metadata (`ClusterView`) and its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, TypeVar

from klamm.client.aio import AsyncConnection
from klamm.client.cluster_view import ClusterView
from klamm.client.config import Address, ClientConfig
from klamm.client.errors import ConnectionFailed
from klamm.client.operations import Ask, Pause, Refresh, Steps
from klamm.protocol.message import Message
from klamm.protocol.types import BrokerId

__all__ = ["AsyncCluster"]

T = TypeVar("T")


class AsyncCluster(ClusterView):
    """The asyncio counterpart of `Cluster`: the same metadata, steps and errors.

    Belongs to one event loop; any of its tasks may use it, and tasks that need the same connection share it.
    """

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config)
        self._connections: dict[Address, AsyncConnection] = {}
        self._connecting: dict[Address, asyncio.Lock] = {}

    def close(self) -> None:
        """Closes all connections. Safe to call twice."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def connection_to(self, broker: BrokerId) -> AsyncConnection:
        """Returns the connection to a broker; opens one if there is none."""
        return await self.connection_to_address(self.address_of(broker))

    async def connection_to_address(self, address: Address) -> AsyncConnection:
        """Returns the connection to an address; opens one if there is none."""
        async with self._connecting.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.is_closed:
                connection = self._connections[address] = await AsyncConnection.open(address, self.config)
            return connection

    async def any_connection(self) -> AsyncConnection:
        """Returns a connection to any reachable broker: an open one, else to a known broker or a bootstrap server.

        It is the same one each time, as long as it is open: a caller then sees the changes that it has made.
        """
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        failures = []
        for address in self.addresses():
            try:
                return await self.connection_to_address(address)
            except ConnectionFailed as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise ConnectionFailed(f"none of the brokers can be reached: {'; '.join(map(str, failures))}")

    async def refresh(self, topics: Iterable[str]) -> None:
        """Fetches the metadata of these topics, and retries until a broker responds; see `Cluster.refresh`."""
        await self.run(self.refreshing(topics))

    async def ensure(self, topics: Iterable[str]) -> None:
        """Refreshes those of the topics whose metadata are not cached."""
        if missing := self.missing(topics):
            await self.refresh(missing)

    async def run(self, steps: Steps[T]) -> T:
        """Executes the steps of an operation, one by one, and returns its result."""
        reply: Any = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = None
            if isinstance(step, Ask):
                reply = await asyncio.gather(
                    *(self._answer(broker, request, step.answer) for broker, request in step.questions)
                )
            elif isinstance(step, Refresh):
                await self.refresh(step.topics)
            elif isinstance(step, Pause):
                await asyncio.sleep(step.seconds)

    async def _answer(
        self, broker: BrokerId | None, request: Message, answer: type[Message]
    ) -> Message | ConnectionFailed:
        try:
            connection = await (self.any_connection() if broker is None else self.connection_to(broker))
            return await connection.request(request, answer)
        except ConnectionFailed as error:
            return error
