"""A listener binds its address before it accepts connections."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvloop

from klamm.broker.network.dispatch import Dispatcher
from klamm.broker.network.listener import Listener
from klamm.broker.network.unsent_answers import UnsentAnswers

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def new_listener() -> Listener:
    return Listener(
        host="127.0.0.1",
        port=0,
        advertised=None,
        maximum_frame_bytes=1000,
        maximum_connections=10,
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
