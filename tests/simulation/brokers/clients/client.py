"""A client's connection to the broker: klamm's own conversation over a simulated link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tests.simulation.brokers.network import Link, Network

from klamm.client.cluster_view import ClusterView
from klamm.client.config import ClientConfig
from klamm.client.conversation import Conversation, Frame, Pending
from klamm.client.errors import ConnectionFailed
from klamm.client.operations import Ask, Pause, Refresh, Steps
from klamm.protocol.message import Message
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.asyncio_loop import ProcessLoop

    from klamm.client.config import Address

__all__ = ["Client", "ClientConnection", "Coordinator", "Destination", "Leader"]

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def _ignore(pending: Pending, body: memoryview) -> None:
    """Ignores the arrival of an answer."""


class _Waiting(NamedTuple):
    """A request that waits for its answer."""

    pending: Pending
    future: asyncio.Future[memoryview]
    arrived: Callable[[Pending, memoryview], None]


class _Conversation(Conversation):
    """A conversation that uses no API version above `ceilings`."""

    ceilings: Mapping[int, int]

    def version_of(self, api_key: int, name: str, lowest: int, highest: int) -> int:
        return super().version_of(api_key, name, lowest, min(highest, self.ceilings.get(api_key, highest)))


class ClientConnection:
    """One connection, with several requests at a time. Any failure closes the connection, and raises
    `ConnectionFailed`.
    """

    def __init__(
        self,
        network: Network,
        config: ClientConfig,
        ceilings: Mapping[int, int],
        *,
        address: Address,
        loop: ProcessLoop | None = None,
    ) -> None:
        """Creates the connection. `loop`: the loop of the client's process, by default that of all clients."""
        self.address = address
        self.peer = f"{address[0]}:{address[1]}"
        self.is_closed = False
        self._network = network
        self._loop = loop = loop or network.client_loop
        self._config = config
        self._conversation = _Conversation(self.peer, config, self._loop.time)
        self._conversation.ceilings = ceilings
        self._waiting: dict[int, _Waiting] = {}
        self._link: Link | None = network.connect(self, loop, address)

    async def open(self) -> None:
        """Exchanges the supported API versions with the broker."""
        if self._link is None:
            self.is_closed = True
            raise ConnectionFailed("the connection is refused")
        conversation = self._conversation
        if self._network.offers and self._network.events.chance(0.9):
            # Nearly all answers are equal, and this exchange takes longer than anything else. So most connections reuse
            # an earlier answer.
            conversation.offers, conversation.is_open = self._network.offers, True
            return
        dialogue = conversation.opening()
        try:
            frame = next(dialogue)
            while True:
                body = await self.receive(self._send(frame))
                frame = dialogue.send(body)
        except StopIteration:
            self._network.offers = conversation.offers

    def version_of(self, api_key: int, name: str, lowest: int, highest: int) -> int:
        """See `FetchConnection`."""
        return self._conversation.version_of(api_key, name, lowest, highest)

    def send_body(self, api_key: int, version: int, body: bytes | bytearray, *, flexible: bool) -> Pending:
        """See `FetchConnection`."""
        return self._send(self._conversation.frame(api_key, version, body, flexible=flexible))

    def send(self, request: Message, arrived: Callable[[Pending, memoryview], None] = _ignore) -> Pending:
        """Sends a request in the highest version that both sides know.

        `arrived` is called as soon as the answer is there. The code that awaits the answer continues some time later.
        """
        return self._send(self._conversation.request(request), arrived)

    def _send(self, frame: Frame, arrived: Callable[[Pending, memoryview], None] = _ignore) -> Pending:
        if self.is_closed or self._link is None:
            raise ConnectionFailed("the connection is closed")
        pending = frame.pending
        self._conversation.sent(frame)
        self._waiting[pending.correlation_id] = _Waiting(pending, self._loop.create_future(), arrived)
        self._link.send(frame.data)
        return pending

    async def receive(self, pending: Pending) -> memoryview:
        """Returns the body of the answer."""
        future = self._waiting[pending.correlation_id].future
        if future.done():
            return self._waiting.pop(pending.correlation_id).future.result()
        timer = self._loop.call_at(pending.deadline, self._time_out, future)
        try:
            return await future
        finally:
            timer.cancel()
            self._waiting.pop(pending.correlation_id, None)

    async def request(self, request: Message, answer: type[M], /) -> M:
        """See `PeerConnection`."""
        return await self.ask(request, answer)

    async def ask(self, request: Message, answer: type[M]) -> M:
        """Sends a request and returns its answer."""
        pending = self.send(request)
        return self.decode(answer, pending, await self.receive(pending))

    def decode(self, answer: type[M], pending: Pending, body: memoryview) -> M:
        """Decodes the body of an answer."""
        return self._conversation.read(answer, pending.version, body)

    def abandon(self, pending: Pending) -> None:
        """See `FetchConnection`."""
        self._waiting.pop(pending.correlation_id, None)
        self._conversation.abandon(pending)

    def renewed(self, pending: Pending) -> Pending:
        """See `FetchConnection`."""
        return self._conversation.renewed(pending)

    def close(self) -> None:
        """See `FetchConnection`."""
        if self._link is not None:
            self._link.hang_up()
        self.lost()

    # The link's side.

    def received(self, data: bytes) -> None:
        """Takes bytes from the link."""
        conversation = self._conversation
        view = memoryview(data)
        while view and not self.is_closed:
            buffer = conversation.buffer()
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            view = view[size:]
            correlation_id = conversation.filled(size)
            if correlation_id in self._waiting:
                pending, future, arrived = self._waiting[correlation_id]
                body = conversation.take(pending)
                if body is not None and not future.done():
                    future.set_result(body)
                    arrived(pending, body)

    def lost(self) -> None:
        """Closes the connection: the link broke, or the client closed it."""
        self.is_closed = True
        self._link = None
        for _, future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionFailed("the connection broke"))
                future.exception()  # No code may be waiting for the future; asyncio would then report its exception.

    def _time_out(self, future: asyncio.Future[memoryview]) -> None:
        if not future.done():
            self.close()


class Leader(NamedTuple):
    """The broker that leads a partition, as the destination of a request."""

    where: TopicPartition


class Coordinator(NamedTuple):
    """The coordinator of a group or a transactional id, as the destination of a request."""

    key_type: int
    key: str


Destination = Leader | Coordinator


class Client(ClusterView):
    """One client's view of a cluster of one broker, and its connection. See `ClusterClient` for several brokers."""

    has_one_broker = True

    def __init__(self, network: Network, config: ClientConfig, ceilings: Mapping[int, int]) -> None:
        super().__init__(config)
        self._network = network
        self._ceilings = ceilings
        self._connection: ClientConnection | None = None

    async def connection(self, to: Destination | None = None) -> ClientConnection:
        """Returns an open connection to a destination, by default any broker. Raises `ConnectionFailed`."""
        connection = self._connection
        if connection is None or connection.is_closed:
            connection = self._connection = self._connect(self.config.bootstrap_servers[0])
            await connection.open()
        return connection

    def _connect(self, address: Address) -> ClientConnection:
        return ClientConnection(self._network, self.config, self._ceilings, address=address)

    async def connections(
        self, wheres: Collection[TopicPartition]
    ) -> list[tuple[ClientConnection, Collection[TopicPartition]]]:
        """Returns connections to the leaders of these partitions, with the partitions of each leader.

        Raises `ConnectionFailed`.
        """
        return [(await self.connection(), wheres)]

    def forget(self, to: Destination | None) -> None:
        """Forgets which broker is the destination, because a request to it has failed."""

    def disconnect(self) -> None:
        """Closes all connections."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def ask(self, request: Message, answer: type[M], to: Destination | None = None) -> M:
        """Sends a request and returns its answer. Raises `ConnectionFailed`."""
        return await (await self.connection(to)).ask(request, answer)

    async def run(self, steps: Steps[T]) -> T:
        """Runs the steps of one of klamm's operations, as `AsyncCluster.run` does."""
        reply: Any = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = None
            if isinstance(step, Ask):
                reply = [await self._try(broker, request, step.answer) for broker, request in step.questions]
            elif isinstance(step, Refresh):
                await self.run(self.refreshing(step.topics))
            elif isinstance(step, Pause):
                await asyncio.sleep(step.seconds)

    async def _try(self, broker: BrokerId | None, request: Message, answer: type[M]) -> M | ConnectionFailed:
        try:
            return await (await self._connection_to(broker)).ask(request, answer)
        except ConnectionFailed as error:
            return error

    async def _connection_to(self, broker: BrokerId | None) -> ClientConnection:
        return await self.connection()
