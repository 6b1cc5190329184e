"""Frames: how a connection splits a stream of bytes, for any size of the received pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

from tests.fuzz.guard import Target

from klamm.broker.handler_context import ConnectionInfo
from klamm.broker.network import client_connection as connection_module
from klamm.broker.network.client_connection import Connection
from klamm.broker.network.dispatch import Body, Dispatcher
from klamm.broker.network.listener import Listener
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.headers import decode_request_header, encode_request_header

__all__ = ["FRAMES"]

_MAXIMUM_FRAME_BYTES: Final = 1 << 20


class _Headers:
    """A substitute for the dispatcher, which decodes the request headers and answers at once."""

    def __init__(self) -> None:
        self.handled: list[bytes] = []

    def dispatch(self, connection: ConnectionInfo, frame: memoryview) -> tuple[int, bool, Body]:
        header = decode_request_header(frame)
        self.handled.append(bytes(frame))
        return header.correlation_id, False, [b"answer"]

    def connection_closed(self, connection: ConnectionInfo) -> None:
        """Does nothing, because no state is kept for a connection."""


class _Socket:
    """A substitute for the transport of a client that reads its answers."""

    def __init__(self) -> None:
        self.is_open = True

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "10.0.0.1", 5000

    def write(self, data: bytes) -> None:
        assert self.is_open

    def writelines(self, parts: list[bytes]) -> None:
        assert self.is_open

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return not self.is_open

    def abort(self) -> None:
        self.is_open = False

    close = abort

    def pause_reading(self) -> None:
        """Does nothing: the bytes keep coming, which is the harder case."""

    def resume_reading(self) -> None:
        """Does nothing, like `pause_reading`."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    # Turns end by count and not by time, so that an input always has the same effect.
    connection_module.TURN_S = 3600.0  # type: ignore[misc]
    return asyncio.new_event_loop()


async def _feed(piece_bytes: int, data: bytes) -> tuple[list[bytes], bool]:
    headers, socket = _Headers(), _Socket()
    options: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "advertised": None,
        "maximum_frame_bytes": _MAXIMUM_FRAME_BYTES,
        "maximum_connections": 10,
        "maximum_connections_per_host": 10,
        "backlog": 10,
        "maximum_idle_s": 600.0,
    }
    listener = Listener(cast(Dispatcher, headers), **options)
    connection = Connection(listener, cast(Dispatcher, headers), _MAXIMUM_FRAME_BYTES)
    connection.connection_made(cast(asyncio.Transport, socket))
    position = 0
    while position < len(data) and socket.is_open:
        buffer = connection.get_buffer(-1)
        size = min(piece_bytes, len(data) - position, len(buffer))
        assert size, "nowhere to receive to"
        buffer[:size] = data[position : position + size]
        del buffer
        connection.buffer_updated(size)
        position += size
        handled = -1
        while handled != len(headers.handled):  # many small requests take several turns
            handled = len(headers.handled)
            await asyncio.sleep(0)
    connection.connection_lost(None)
    return headers.handled, socket.is_open


def _expected(data: bytes) -> tuple[list[bytes], bool]:
    """Returns the frames that the protocol defines for the stream, and whether the connection is still open."""
    frames: list[bytes] = []
    position = 0
    while position + 4 <= len(data):
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        if not 0 <= size <= _MAXIMUM_FRAME_BYTES:
            return frames, False
        if position + 4 + size > len(data):
            break
        frame = data[position + 4 : position + 4 + size]
        try:
            decode_request_header(frame)
        except MalformedMessage:
            return frames, False
        frames.append(frame)
        position += 4 + size
    return frames, True


def _read_stream(data: bytes) -> None:
    if not data:
        return
    piece_bytes, stream = 1 + data[0] ** 2, data[1:]
    assert _loop().run_until_complete(_feed(piece_bytes, stream)) == _expected(stream)


def _stream_seeds() -> Iterator[bytes]:
    frames = b""
    for api_key, version, body in ((18, 3, b"\x02a\x02b\x00"), (3, 1, b"\x00\x00\x00\x00"), (8, 2, bytes(40))):
        frame = encode_request_header(api_key, version, 1, "client") + body
        frames += len(frame).to_bytes(4, "big") + frame
    for pieces in (0, 2, 5, 30):
        yield bytes((pieces,)) + frames
    yield b"\x04" + frames + b"\x00\x0f\xff\xff" + bytes(100)
    yield b"\xff" + frames * 100


# The listener's scratch buffer is a quarter of a megabyte.
FRAMES: Final = Target("frames", _read_stream, _stream_seeds, (256 << 10) + (64 << 10), 60)
