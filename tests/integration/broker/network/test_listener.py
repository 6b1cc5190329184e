"""A listener binds its address before it accepts connections."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvloop

from klamm.broker.handler_context import ConnectionInfo
from klamm.broker.network.dispatch import Body, Dispatcher
from klamm.broker.network.listener import Listener
from klamm.broker.network.unsent_answers import UnsentAnswers

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


class Echo:
    """Answers each frame with its bytes."""

    def dispatch(self, connection: ConnectionInfo, frame: memoryview) -> tuple[int, bool, Body]:
        return 1, False, [bytes(frame)]

    def connection_closed(self, connection: ConnectionInfo) -> None:
        pass


def new_listener(*, maximum_frame_bytes: int = 1000, maximum_connections: int = 10) -> Listener:
    return Listener(
        host="127.0.0.1",
        port=0,
        advertised=None,
        maximum_frame_bytes=maximum_frame_bytes,
        maximum_connections=maximum_connections,
        maximum_connections_per_host=10,
        backlog=10,
        maximum_idle_s=60.0,
    )


async def serve(listener: Listener) -> None:
    await listener.serve(cast(Dispatcher, cast(Any, None)), UnsentAnswers())


@LOOPS
def test_connections_are_refused_until_the_listener_serves(new_loop: NewLoop) -> None:
    """A bound listener has its port and refuses connections. Once it serves, it accepts them at that port."""

    async def scenario() -> None:
        listener = new_listener()
        address = await listener.bind()
        assert listener.advertised_address == address
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        await serve(listener)
        socket.create_connection(address).close()
        await listener.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


@LOOPS
def test_an_address_that_another_process_has_taken_meanwhile(new_loop: NewLoop) -> None:
    """If another process begins to listen at the address before the listener serves, the listener fails to serve."""

    async def scenario() -> None:
        listener = new_listener()
        address = await listener.bind()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(address)
            other.listen()
            with pytest.raises(OSError, match="in use") as caught:
                await serve(listener)
        assert caught.value.errno == errno.EADDRINUSE
        listener.release()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


@LOOPS
def test_a_connection_that_waits_for_another_one_to_end_may_send_much(new_loop: NewLoop) -> None:
    """A connection beyond `max.connections` is served when another one is closed, and gets an answer to each request
    that it has sent meanwhile."""
    frame = (50_000).to_bytes(4, "big") + bytes(50_000)
    count = 20

    async def scenario() -> None:
        listener = new_listener(maximum_frame_bytes=100_000, maximum_connections=1)
        address = await listener.bind()
        await listener.serve(cast(Dispatcher, Echo()), UnsentAnswers())
        answers, first = await asyncio.open_connection(*address)
        first.write(frame)
        await answers.readexactly(len(frame) + 4)
        answers, second = await asyncio.open_connection(*address)
        try:
            for _ in range(count):
                second.write(frame)
                await asyncio.sleep(0.01)
            first.close()
            async with asyncio.timeout(30):
                await answers.readexactly(count * (len(frame) + 4))
        finally:
            second.close()
            await listener.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
