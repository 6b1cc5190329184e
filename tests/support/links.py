"""Proxies in front of several brokers, so that a test cuts the network from one broker to another.

Each broker advertises the port of its proxy. A proxy recognizes the broker behind a connection by the client id of its
first request (`broker-1-…`). A link is one direction of asking: the connections that one broker opens to another, with
the answers. Connections of clients are never cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from tests.support.ports import free_port

__all__ = ["KINDS", "Cut", "Links"]

R = TypeVar("R")

Cut = Literal["drop", "hold", "hold requests", "hold answers"]
"""`drop` breaks the connections and refuses new ones. The others keep connections and what is sent, as a network does
that loses packets: all of it arrives later."""
KINDS: Final[tuple[Cut, ...]] = ("drop", "hold", "hold requests", "hold answers")

_CLIENT_ID_FROM: Final = 8
"""After API key, version and correlation id."""
_BROKER: Final = re.compile(rb"broker-(\d+)-")
_ATTEMPTS: Final = 100


class _Link:
    def __init__(self) -> None:
        self.is_dropped = False
        self.gates = {"requests": asyncio.Event(), "answers": asyncio.Event()}
        self.writers: set[asyncio.StreamWriter] = set()
        self.struck = 0

    def mend(self) -> None:
        self.is_dropped = False
        for gate in self.gates.values():
            gate.set()


class Links:
    """The links between brokers 1 to `count`, on a thread of their own: `with Links(3) as links: …`."""

    def __init__(self, count: int) -> None:
        self.ids = range(1, count + 1)
        self.port = 0
        """The port of the first proxy; the others are above it."""
        self._ports: dict[int, int] = {}
        self._links: dict[tuple[int, int], _Link] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def lead_to(self, addresses: str) -> str:
        """Sets where the brokers really listen, as `host:port,…` by their ids. Returns the addresses of the proxies."""
        self._ports = {broker: int(each.split(":")[1]) for broker, each in enumerate(addresses.split(","), 1)}
        return ",".join(f"127.0.0.1:{self.port + broker - 1}" for broker in self.ids)

    def cut(self, source: int, target: int, kind: Cut) -> None:
        """Cuts the link from one broker to another, until `mend`."""
        self._run(self._cut(self._links[source, target], kind))

    def mend(self) -> None:
        """Ends all cuts. What was held arrives now."""

        async def mend() -> None:
            for link in self._links.values():
                link.mend()

        self._run(mend())

    def struck(self, source: int, target: int) -> int:
        """Returns how often a cut has held or dropped something of this link."""
        return self._links[source, target].struck

    def _run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _listen(self) -> None:
        for source in self.ids:
            for target in self.ids:
                self._links[source, target] = link = _Link()
                link.mend()
        self._clients = _Link()
        self._clients.mend()
        for _ in range(_ATTEMPTS):
            self.port = free_port()
            try:
                for broker in self.ids:
                    self._servers.append(await self._proxy(broker))
            except OSError:
                await self._close_servers()
                continue
            return
        raise OSError(f"no {len(self.ids)} successive ports are free")

    async def _proxy(self, broker: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(broker, reader, writer)

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # A task that is cancelled before it begins can't close its socket itself.
            task = self._loop.create_task(serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: writer.transport.abort())

        return await asyncio.start_server(accept, "127.0.0.1", self.port + broker - 1)

    async def _serve(self, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = await reader.readexactly(4)
        first = await reader.readexactly(struct.unpack(">i", size)[0])
        link = self._link_of(first, target)
        if link.is_dropped:
            link.struck += 1
            return
        answers, requests = await asyncio.open_connection("127.0.0.1", self._ports[target])
        link.writers |= {writer, requests}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(link, "requests", reader, requests, size + first))
                group.create_task(_pass_on(link, "answers", answers, writer))
        except* OSError:
            pass  # one side has closed
        finally:
            link.writers -= {writer, requests}
            requests.transport.abort()

    def _link_of(self, frame: bytes, target: int) -> _Link:
        (length,) = struct.unpack_from(">h", frame, _CLIENT_ID_FROM)
        found = _BROKER.match(frame[_CLIENT_ID_FROM + 2 : _CLIENT_ID_FROM + 2 + max(0, length)])
        return self._clients if found is None else self._links[int(found[1]), target]

    async def _cut(self, link: _Link, kind: Cut) -> None:
        if kind == "drop":
            link.is_dropped = True
            link.struck += len(link.writers)
            for writer in link.writers:
                writer.transport.abort()
            return
        for name, gate in link.gates.items():
            if kind in ("hold", f"hold {name}"):
                gate.clear()

    async def _close_servers(self) -> None:
        while self._servers:
            server = self._servers.pop()
            server.close()
            await server.wait_closed()

    async def _stop(self) -> None:
        # asyncio's own task for a connection that is accepted right now has to begin before its server closes, and
        # before it is cancelled. Else it leaves the socket open.
        for listening in (each for server in self._servers for each in server.sockets):
            self._loop.remove_reader(listening)
        await asyncio.sleep(0)
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._close_servers()


async def _pass_on(
    link: _Link, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b""
) -> None:
    gate = link.gates[direction]
    data = first
    while data or (data := await reader.read(1 << 16)):
        if not gate.is_set():
            link.struck += 1
        await gate.wait()
        writer.write(data)
        await writer.drain()
        data = b""
    await gate.wait()  # the end of the connection is held, too
    writer.close()
