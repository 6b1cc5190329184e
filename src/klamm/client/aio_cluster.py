"""One client's view of one cluster for asyncio: what it knows of it (`ClusterView`), and the connections it holds."""

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
    """What the blocking `Cluster` is, in an event loop: the same knowledge, steps and errors.

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
        """The connection to a broker, made if there is none."""
        return await self.connection_to_address(self.address_of(broker))

    async def connection_to_address(self, address: Address) -> AsyncConnection:
        """The connection to an address, made if there is none."""
        async with self._connecting.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.is_closed:
                connection = self._connections[address] = await AsyncConnection.open(address, self.config)
            return connection

    async def any_connection(self) -> AsyncConnection:
        """A connection to whichever broker can be reached: one that is open, one that is known, a bootstrap server."""
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
        """Asks the cluster for these topics, again and again until it answers; as `Cluster.refresh`."""
        await self.run(self.refreshing(topics))

    async def ensure(self, topics: Iterable[str]) -> None:
        """Like `refresh`, for those topics that nothing is known of."""
        if missing := self.missing(topics):
            await self.refresh(missing)

    async def run(self, steps: Steps[T]) -> T:
        """Takes the steps of an operation, one by one, and returns what it comes to."""
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
