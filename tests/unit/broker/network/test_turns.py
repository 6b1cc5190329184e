"""Tests that a connection whose client sends without a pause leaves time to other connections."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from tests.support.event_loop import in_loop
from tests.unit.broker.network.test_client_connection import Handlers, Peer, new_listener

from klamm.broker.network import client_connection as connection_module
from klamm.broker.network.client_connection import TURN_S

FRAMES_IN_A_READ = 4
MOST_READS = 5


@in_loop
async def test_reads_that_follow_at_once_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop reads up to 32 times in one iteration of the loop, if each read fills its buffer. The requests of one read
    take less than a turn here; several reads take longer, so the connection pauses, and continues later."""
    moments = count()
    monkeypatch.setattr(connection_module, "monotonic", lambda: next(moments) * TURN_S / 5)
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    size = len(peer.connection.get_buffer(-1)) // FRAMES_IN_A_READ
    frame = (size - 4).to_bytes(4, "big") + b"e" + bytes(size - 5)
    reads = 0
    while peer.socket.is_reading:
        peer.connection.get_buffer(-1)[:] = frame * FRAMES_IN_A_READ
        peer.connection.buffer_updated(size * FRAMES_IN_A_READ)
        reads += 1
        assert reads <= MOST_READS
    for _ in range(MOST_READS):
        await asyncio.sleep(0)
    assert peer.socket.is_reading
    assert len(handlers.handled) == reads * FRAMES_IN_A_READ


@in_loop
async def test_each_read_of_a_client_that_pauses_begins_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that does not fill its buffer is the last one of the iteration."""
    moments = count()
    monkeypatch.setattr(connection_module, "monotonic", lambda: next(moments) * TURN_S / 5)
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    for _ in range(MOST_READS):
        peer.send(*[b"efew"] * FRAMES_IN_A_READ)
        assert peer.socket.is_reading
    assert len(handlers.handled) == MOST_READS * FRAMES_IN_A_READ
