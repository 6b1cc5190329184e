"""Large requests that wait for memory, with turns that end after a real time."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.support.event_loop import in_loop
from tests.unit.broker.network.test_request_memory import LIMIT, Clients, frame


class WaitingClients(Clients):
    """Connections that also wait for time to pass."""

    async def wait(self) -> None:
        """Does a step after a short sleep, and closes aborted connections."""
        await asyncio.sleep(0.001)
        for peer in tuple(self._unread):
            if peer.socket.state == "aborted":
                del self._unread[peer]
                peer.connection.connection_lost(None)
        await self.step()

    async def wait_for(self, size: int) -> None:
        """Waits for the answer to a request of the given size."""
        for _ in range(10_000):
            if size in self.answered:
                return
            await self.wait()
        raise AssertionError(f"the request of {size} bytes is not answered")


@in_loop
async def test_half_requests_do_not_keep_others_out(caplog: pytest.LogCaptureFixture) -> None:
    """Incomplete requests that hold all memory do not block other requests.

    Small requests are answered at once. Large requests wait until the broker has closed enough of the connections that
    have the turn and send nothing.
    """
    clients = WaitingClients(turn_s=0.01)
    halves = [clients.connect() for _ in range(5)]
    for peer in halves:
        clients.send(peer, frame(100_000)[:50_000])
    assert not clients.memory.has_room
    small, large = clients.connect(), clients.connect()
    clients.send(small, frame(3_000))
    assert clients.answered == [3_000]
    with caplog.at_level(logging.WARNING, "klamm"):
        for size in (300_000, 200_000):
            clients.send(large, frame(size))
            await clients.wait_for(size)
    assert "lacks 50000 bytes that do not come, and others wait for the memory" in caplog.text
    assert large.socket.state == "open"
    for peer in halves:
        peer.connection.connection_lost(None)
    assert clients.memory.held_bytes == 0


@in_loop
async def test_requests_that_drip_have_no_turn_without_end() -> None:
    """A client that sends single bytes of a large request loses its connection, like one that sends nothing."""
    clients = WaitingClients(turn_s=0.05)
    dripping, large = clients.connect(), clients.connect()
    data = frame(400_000)
    clients.send(dripping, data[:LIMIT])
    clients.send(large, frame(400_000))
    for _ in range(10_000):
        if dripping.socket.state != "open":
            break
        clients.send(dripping, b"x")
        await clients.wait()
    assert dripping.socket.state == "aborted"
    await clients.wait_for(400_000)
