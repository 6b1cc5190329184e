"""Tests that a large frame stays unchanged while its request, which waits, still reads it."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from tests.support.event_loop import in_loop
from tests.unit.broker.network.test_client_connection import Handlers, Peer, new_listener, until_answered

from klamm.broker.handler_context import ConnectionInfo
from klamm.broker.network.codec_route import COPIED_FRAME_BYTES
from klamm.broker.network.dispatch import Body, PendingBody
from klamm.broker.time_slices import Progress, Work, begin, wait_for

READ_LATE = b"l"


class LateReaders(Handlers):
    """Has requests that wait in their first step, as a Produce for many partitions waits for the coordinator of its
    transaction, and read their frame afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.may_read = asyncio.get_running_loop().create_future()

    def dispatch(self, connection: ConnectionInfo, frame: memoryview) -> tuple[int, bool, Body | PendingBody] | None:
        if frame[:1] != READ_LATE:
            return super().dispatch(connection, frame)
        return 1, False, cast("PendingBody", begin(self._read(frame), Progress()))

    def _read(self, frame: memoryview) -> Work[Body | None]:
        yield from wait_for(self.may_read)
        return [bytes(frame[1:])]


def frame_of(kind: bytes, content: bytes) -> bytes:
    frame = kind + content * (COPIED_FRAME_BYTES + 1000)
    return len(frame).to_bytes(4, "big") + frame


@in_loop
async def test_large_frame_of_a_request_that_waits_stays_as_it_is() -> None:
    """The next large frame, of another connection, has memory of its own. All memory is free in the end."""
    handlers = LateReaders()
    listener = new_listener(handlers)
    first, second = Peer(listener, handlers), Peer(listener, handlers)
    first.feed(frame_of(READ_LATE, b"1"))
    assert listener.request_memory.held_bytes > COPIED_FRAME_BYTES
    second.feed(frame_of(b"e", b"2"))
    handlers.may_read.set_result(None)
    await until_answered(first, 1)
    assert set(first.socket.written[0]) == set(b"1")
    assert listener.request_memory.held_bytes == 0


@pytest.mark.parametrize("kind", [READ_LATE, b"w"])
@in_loop
async def test_large_frame_of_a_request_that_waits_goes_with_its_connection(kind: bytes) -> None:
    """The memory of the frame is free when the client has disconnected."""
    handlers = LateReaders()
    listener = new_listener(handlers)
    peer = Peer(listener, handlers)
    peer.feed(frame_of(kind, b"1"))
    peer.connection.connection_lost(None)
    for _ in range(5):
        await asyncio.sleep(0)
    assert listener.request_memory.held_bytes == 0
