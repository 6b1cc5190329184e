"""Connections of clients and brokers to brokers, without sockets: they carry bytes in both directions, in order, until
they break.

The broker's side of each connection is a real `Connection` of its listener. Bytes may arrive in pieces or late. When
the connection breaks, the bytes on their way are lost. Then neither side knows how much the other side has read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from klamm.broker.network.client_connection import Connection

if TYPE_CHECKING:
    from tests.simulation.brokers.asyncio_loop import ProcessLoop
    from tests.simulation.loop import EventLoop

    from klamm.broker.network.dispatch import Dispatcher
    from klamm.broker.network.listener import Listener
    from klamm.client.config import Address
    from klamm.client.conversation import Offers

__all__ = ["ClientEnd", "Door", "Link", "Network"]

_LARGEST_FRAME_BYTES = 104_857_600
_CLOSING_MS = 1.0
_LONGEST_STALL_MS = 1_900.0
"""At the end, worlds wait a little longer than this for delayed requests."""


class ClientEnd(Protocol):
    """The client's side of a connection."""

    def received(self, data: bytes) -> None:
        """Receives some bytes."""

    def lost(self) -> None:
        """Learns that the connection is lost."""


class Door:
    """A broker's entrance for connections during one life."""

    def __init__(self, address: Address, loop: ProcessLoop, listener: Listener, dispatcher: Dispatcher) -> None:
        self.address = address
        self.loop = loop
        self.listener = listener
        self.dispatcher = dispatcher


class Network:
    """All connections. `doors` has the brokers that listen now, by address."""

    def __init__(self, events: EventLoop, client_loop: ProcessLoop, *, latency_ms: float, has_pieces: bool) -> None:
        self.events = events
        self.client_loop = client_loop
        self.doors: dict[Address, Door] = {}
        self.links: list[Link] = []
        self.cuts: set[tuple[ProcessLoop, Address]] = set()
        """Between these processes and brokers no connection is possible."""
        self.latency_ms = latency_ms
        self.has_pieces = has_pieces
        self.offers: Offers | None = None
        """The broker's answer to ApiVersions."""
        self._ports = 0

    def connect(self, client: ClientEnd, loop: ProcessLoop, address: Address) -> Link | None:
        """Returns a new connection of a process to a broker, or None if it is refused."""
        door = self.doors.get(address)
        if door is None or (loop, address) in self.cuts:
            return None
        self._ports += 1
        link = Link(self, door, client, loop, self._ports)
        self.links.append(link)
        return link

    def end(self, loop: ProcessLoop, address: Address) -> None:
        """Breaks all connections of a broker's process, because it has ended."""
        self.doors.pop(address, None)
        self.break_links(loop)

    def break_links(self, loop: ProcessLoop | None) -> None:
        """Breaks all connections of a process; new ones are possible."""
        for link in list(self.links):
            if loop is not None and link.is_of(loop):
                link.break_off()

    def cut(self, loop: ProcessLoop, address: Address) -> None:
        """Breaks the connections of a process to a broker, and refuses new ones until `heal`."""
        self.cuts.add((loop, address))
        for link in list(self.links):
            if link.leads(loop, address):
                link.break_off()

    def heal(self) -> None:
        """Ends all cuts."""
        self.cuts.clear()

    def delay_ms(self) -> float:
        """Returns the time that some bytes are on their way."""
        return 0.05 + self.events.random.random() * self.latency_ms


class Link(asyncio.Transport):
    """One connection. It is the transport of the broker's `Connection`."""

    def __init__(self, network: Network, door: Door, client: ClientEnd, loop: ProcessLoop, port: int) -> None:
        super().__init__()
        self._network = network
        self._events = network.events
        self._door = door
        self._client = client
        self._client_loop = loop
        self._port = port
        self._connection: Connection | None = None
        self._up_ms = self._down_ms = 0.0
        """The arrival times of the last bytes to the broker and of the last bytes to the client."""
        self._unread = b""
        self._is_paused = self._is_closing = False
        self.is_broken = False
        self._to_broker(self._accepted)

    def is_of(self, loop: ProcessLoop) -> bool:
        """Returns whether the process is at one of the ends."""
        return loop is self._door.loop or loop is self._client_loop

    def leads(self, loop: ProcessLoop, address: Address) -> bool:
        """Returns whether the connection leads from that process to the broker at that address."""
        return loop is self._client_loop and address == self._door.address

    # The client's side.

    def send(self, data: bytes) -> None:
        """Sends bytes to the broker; the bytes may be lost."""
        if self.is_broken:
            return
        if self._network.has_pieces and len(data) > 1 and self._events.chance(0.2):
            at = self._events.between(1, len(data) - 1)
            self._to_broker(self._arrived, data[:at])
            data = data[at:]
        self._to_broker(self._arrived, data)

    def break_off(self) -> None:
        """Breaks the connection. The bytes on their way are lost; both sides learn of the break some time later."""
        if self.is_broken:
            return
        self.is_broken = True
        self._network.links.remove(self)
        now_ms = self._events.now_ms
        self._door.loop.receive_at(now_ms + self._network.delay_ms(), self._lose_connection)
        self._client_loop.receive_at(now_ms + self._network.delay_ms(), self._client.lost)

    def stall(self, stall_ms: float, *, up: bool, down: bool) -> None:
        """Delays all bytes that are sent from now on. Several delays together have a limit."""
        now_ms = self._events.now_ms
        if up:
            self._up_ms = max(self._up_ms, min(max(self._up_ms, now_ms) + stall_ms, now_ms + _LONGEST_STALL_MS))
        if down:
            self._down_ms = max(self._down_ms, min(max(self._down_ms, now_ms) + stall_ms, now_ms + _LONGEST_STALL_MS))

    def hang_up(self) -> None:
        """Closes the client's end: its bytes still arrive, but the client reads no more answers."""
        self._client = _Nobody()
        self._to_broker(self.break_off)

    # Bytes on their way.

    def _to_broker(self, callback: Any, *arguments: object) -> None:
        self._up_ms = max(self._up_ms, self._events.now_ms + self._network.delay_ms())
        self._door.loop.receive_at(self._up_ms, callback, *arguments)

    def _accepted(self) -> None:
        if not self.is_broken:
            self._connection = Connection(self._door.listener, self._door.dispatcher, _LARGEST_FRAME_BYTES)
            self._connection.connection_made(self)

    def _arrived(self, data: bytes) -> None:
        if self.is_broken or self._connection is None or self._is_closing:
            return
        self._unread += data
        self._read()

    def _read(self) -> None:
        while self._unread and not self._is_paused and not self._is_closing:
            assert self._connection is not None
            buffer = self._connection.get_buffer(-1)
            some, self._unread = self._unread[: len(buffer)], self._unread[len(buffer) :]
            buffer[: len(some)] = some
            self._connection.buffer_updated(len(some))

    def _lose_connection(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.connection_lost(None)

    def _deliver(self, data: bytes) -> None:
        if not self.is_broken:
            self._client.received(data)

    # The broker's side: asyncio's transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", self._port), "sockname": self._door.address}.get(name, default)

    def write(self, data: Any) -> None:
        if self.is_broken or self._is_closing:
            return
        self._down_ms = max(self._down_ms, self._events.now_ms + self._network.delay_ms())
        self._client_loop.receive_at(self._down_ms, self._deliver, bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._is_closing or self.is_broken

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._door.loop.call_soon(self._lose_connection)
            at_ms = max(self._down_ms, self._events.now_ms) + _CLOSING_MS
            self._client_loop.receive_at(at_ms, self.break_off)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._door.loop.call_soon(self._read)

    def get_write_buffer_size(self) -> int:
        return 0


class _Nobody:
    def received(self, data: bytes) -> None:
        pass

    def lost(self) -> None:
        pass
