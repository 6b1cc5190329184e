"""Tests the memory of unfinished requests, and the order in which they continue at the limit."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

from tests.support.event_loop import in_loop
from tests.unit.broker.network.test_client_connection import Handlers, Peer, new_listener

from klamm.broker.network.frame_buffers import BufferPool
from klamm.broker.network.request_memory import BYTES_WITHOUT_ROOM, FREED_AT_ONCE, RequestMemory

LIMIT = 200_000


def frame(size: int) -> bytes:
    """Returns a request of `size` bytes, including its length and the echo byte; its answer has `size` - 5 bytes."""
    return (size - 4).to_bytes(4, "big") + b"e" + bytes(size - 5)


class Clients:
    """Connections that share one memory. `step` lets connections read that are not paused."""

    def __init__(self, **options: Any) -> None:
        self.memory = RequestMemory(LIMIT, pool=BufferPool(0), **options)
        self.handlers = Handlers()
        self._listener = new_listener(
            self.handlers, request_memory=self.memory, maximum_connections=1000, maximum_connections_per_host=1000
        )
        self._unread: dict[Peer, bytes] = {}

    def connect(self) -> Peer:
        peer = Peer(self._listener, self.handlers)
        self._unread[peer] = b""
        return peer

    def send(self, peer: Peer, data: bytes) -> None:
        """Adds bytes to the client's socket, and lets the connection read as much as it accepts."""
        if peer in self._unread:
            self._unread[peer] += data
            self._read(peer)

    def _read(self, peer: Peer) -> None:
        while self._unread[peer] and peer.socket.is_reading and peer.socket.state == "open":
            buffer = peer.connection.get_buffer(-1)
            size = min(len(buffer), len(self._unread[peer]))
            buffer[:size], self._unread[peer] = self._unread[peer][:size], self._unread[peer][size:]
            del buffer
            peer.connection.buffer_updated(size)
            assert self.memory.held_bytes <= LIMIT + self.slack_bytes

    @property
    def slack_bytes(self) -> int:
        """Returns the size of the largest request in these tests plus a small allowance for each connection."""
        return 400_000 + BYTES_WITHOUT_ROOM * len(self._unread)

    async def step(self, times: int = 3) -> None:
        for _ in range(times):
            await asyncio.sleep(0)
            for peer in self._unread:
                self._read(peer)

    @property
    def answered(self) -> list[int]:
        return [len(answer) + 5 for answer in self.handlers.handled]


@in_loop
async def test_frames_arrive_as_they_were_sent_whatever_their_buffers_are() -> None:
    """Frames arrive unchanged for all split points and frame sizes, with and without a pool."""
    chance = random.Random(7)
    for pool in (BufferPool(0), BufferPool(1_000_000), BufferPool()):
        memory = RequestMemory(pool=pool)
        handlers = Handlers()
        peer = Peer(new_listener(handlers, request_memory=memory), handlers)
        answers = [chance.randbytes(int(10 ** chance.uniform(0, 5.9))) for _ in range(60)]
        stream = b"".join((len(answer) + 1).to_bytes(4, "big") + b"e" + answer for answer in answers)
        position = 0
        while position < len(stream):
            size = int(10 ** chance.uniform(0, 5.5))
            peer.feed(stream[position : position + size])
            position += size
            # On a busy machine the connection keeps a part of the frames for its next turn.
            for _ in range(1_000):
                if peer.socket.is_reading:
                    break
                await asyncio.sleep(0)
        assert handlers.handled == answers
        assert memory.held_bytes == 0


@in_loop
async def test_one_request_that_is_larger_than_the_limit_arrives() -> None:
    """A request larger than the limit arrives if it has the turn and comes without a break."""
    clients = Clients()
    peer = clients.connect()
    clients.send(peer, frame(2 * LIMIT))
    await clients.step(50)
    assert clients.answered == [2 * LIMIT]
    assert clients.memory.held_bytes == 0


@in_loop
async def test_the_turn_is_the_smallest_ones() -> None:
    """The turn goes to the connection with the fewest missing bytes, because it frees its memory first."""
    clients = Clients()
    busy, second, third = (clients.connect() for _ in range(3))
    clients.send(busy, b"\0\0\0\6wpoll!" + frame(LIMIT + 10_000))  # this frame waits behind the poll
    clients.send(second, frame(350_000))
    clients.send(third, frame(340_000))
    await clients.step(50)
    assert clients.answered[1:] == [340_000, 350_000]
    clients.handlers.pending[0].set_result([b"poll!"])
    await clients.step()
    assert clients.answered[3:] == [LIMIT + 10_000]
    assert clients.memory.held_bytes == 0


@in_loop
async def test_large_buffers_are_freed_in_steps() -> None:
    """Large buffers are freed in steps, since the kernel takes milliseconds for tens of megabytes."""
    memory = RequestMemory(pool=BufferPool(0))
    handlers = Handlers()
    listener = new_listener(handlers, request_memory=memory)
    peer = Peer(listener, handlers, maximum_frame_bytes=100_000_000)
    size = 3 * FREED_AT_ONCE
    peer.feed(frame(size))
    assert len(handlers.handled) == 1
    seen = [memory.held_bytes]
    while memory.held_bytes:
        await asyncio.sleep(0)
        seen.append(memory.held_bytes)
    assert seen[0] == size
    assert all(before - after <= FREED_AT_ONCE for before, after in pairwise(seen))


@in_loop
async def test_whoever_waits_may_go() -> None:
    """A connection that is closed in the queue or during its turn leaves the queue and frees its memory."""
    clients = Clients()
    peers = [clients.connect() for _ in range(3)]
    for peer in peers:
        clients.send(peer, frame(400_000)[:300_000])
    await clients.step()
    for peer in peers:
        peer.connection.connection_lost(None)
    assert clients.memory.held_bytes == 0
    last = clients.connect()
    clients.send(last, frame(400_000))
    await clients.step(50)
    assert clients.answered == [400_000]


@in_loop
async def test_memory_that_comes_free_lets_many_read_on() -> None:
    """Freed memory lets hundreds of waiting connections continue, although few of them are woken in one step."""
    clients = Clients()
    full = clients.connect()
    clients.send(full, frame(2 * LIMIT)[: LIMIT + 1])
    waiting = [clients.connect() for _ in range(300)]
    for peer in waiting:
        clients.send(peer, frame(20_000))
    full.connection.connection_lost(None)
    await clients.step(2000)
    assert clients.answered == [20_000] * 300
    assert clients.memory.held_bytes == 0
