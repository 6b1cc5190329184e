"""The metadata store of a worker: a session with the store that the worker's supervisor serves.

One thread writes requests, another reads what the server sends: encoding and decoding a large commit would hold up the
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, Self

from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStoreError, OutcomeUnknown
from klamm.metadata.store_frames import LENGTH, MAXIMUM_BYTES, decode, decode_commit, encode, encode_changes

__all__ = ["RemoteStore"]

_ENDED: Final = "the session with the metadata store has ended"


class _Watcher(NamedTuple):
    on_commit: Callable[[Commit], None]
    prepare: Callable[[Commit], None] | None
    is_ready: asyncio.Future[None]


class RemoteStore:
    """A `MetadataStore` that another process of this machine serves. Created and used on the event loop's thread.

    When the connection ends, a transaction in progress raises OutcomeUnknown, and its commit is not delivered any more:
    the session is over, and with it the broker.
    """

    is_shared = True
    maximum_operations: int | None = None

    def __init__(self, connection: socket.socket) -> None:
        """Takes over the connection. Use `open`."""
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._watchers: dict[int, _Watcher] = {}
        """By the number of the request. The reading thread only reads it."""
        self._ready: list[_Watcher] = []
        """The watchers that have the content. Only the reading thread uses it."""
        self._lost: list[Callable[[], None]] = []
        self._is_over = self._is_closing = False
        self._finished: asyncio.Future[None] = self._loop.create_future()
        self._requests: SimpleQueue[Callable[[], bytes] | None] = SimpleQueue()
        # Daemons, so that a process whose loop died can still end.
        self._threads = [
            threading.Thread(target=target, name=f"metadata-store-{target.__name__[1:]}", daemon=True)
            for target in (self._write, self._read)
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Connects to the server at `path`. Raises MetadataStoreError."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            await asyncio.to_thread(connection.connect, str(path))
        except OSError as error:
            connection.close()
            raise MetadataStoreError(f"cannot connect to the metadata store at {path}: {error.strerror}") from error
        return cls(connection)

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """Implements `MetadataStore.watch`."""
        self._require_open()
        number = next(self._numbers)
        watcher = self._watchers[number] = _Watcher(on_commit, prepare, self._loop.create_future())
        self._requests.put(lambda: encode({"watch": number}))
        await watcher.is_ready

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """Implements `MetadataStore.transact`."""
        assert len({change.key for change in changes}) == len(changes), "a key occurs once in a transaction"
        return await self._ask(
            lambda number: {"transact": number, "conditions": dict(conditions), "changes": encode_changes(changes)}
        )

    async def catch_up(self) -> None:
        """Implements `MetadataStore.catch_up`. The server sends each commit before it answers a later request."""
        await self._ask(lambda number: {"reach": number})

    async def _ask(self, request: Callable[[int], dict[str, Any]]) -> int:
        """Sends a request with a number, and returns the revision in the answer."""
        self._require_open()
        number = next(self._numbers)
        waiting: asyncio.Future[int] = self._loop.create_future()
        self._waiting[number] = waiting
        self._requests.put(lambda: encode(request(number)))
        return await waiting

    def valid_until(self) -> float:
        """Implements `MetadataStore.valid_until`. The session has no timeout: it ends with the connection."""
        return -math.inf if self._is_over else math.inf

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Implements `MetadataStore.on_session_lost`."""
        self._lost.append(callback)

    async def close(self) -> None:
        """Implements `MetadataStore.close`."""
        if not self._is_closing:
            self._is_closing = True
            # An operation in progress has its answer before.
            await asyncio.gather(*self._waiting.values(), return_exceptions=True)
            self._requests.put(lambda: encode({"end": True}))
        await asyncio.shield(self._finished)
        for thread in self._threads:
            thread.join()

    def _require_open(self) -> None:
        if self._is_over or self._is_closing:
            raise MetadataStoreError(_ENDED)

    # The threads

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (request := self._requests.get()) is not None:
                self._connection.sendall(request())

    def _read(self) -> None:
        stream = self._connection.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            while len(head := stream.read(LENGTH.size)) == LENGTH.size:
                (length,) = LENGTH.unpack(head)
                if length > MAXIMUM_BYTES or len(body := stream.read(length)) < length:
                    break
                self._take(decode(body))
        self._requests.put(None)
        stream.close()
        self._connection.close()
        with contextlib.suppress(RuntimeError):  # the loop of a process that ends may be closed
            self._loop.call_soon_threadsafe(self._end)

    def _take(self, message: Mapping[str, Any]) -> None:
        """Takes a message on the reading thread, and passes it to the loop in order."""
        if "done" in message:
            self._loop.call_soon_threadsafe(self._answer, message)
        elif "content" in message:
            watcher = self._watchers[message["content"]]
            self._deliver([watcher], decode_commit(message["revision"], message["entries"]))
            self._loop.call_soon_threadsafe(_set_ready, watcher)
            self._ready.append(watcher)
        else:
            self._deliver(self._ready, decode_commit(message["commit"], message["entries"]))

    def _deliver(self, watchers: Sequence[_Watcher], commit: Commit) -> None:
        for watcher in watchers:
            if watcher.prepare is not None:
                watcher.prepare(commit)
            self._loop.call_soon_threadsafe(watcher.on_commit, commit)

    # The loop

    def _answer(self, message: Mapping[str, Any]) -> None:
        waiting = self._waiting.pop(message["done"])
        if waiting.done():
            return  # cancelled
        if "revision" in message:
            waiting.set_result(message["revision"])
        elif "condition" in message:
            waiting.set_exception(ConditionFailed(message["condition"]))
        else:
            waiting.set_exception(MetadataStoreError(message["error"]))

    def _end(self) -> None:
        self._is_over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(OutcomeUnknown(_ENDED))
        self._waiting.clear()
        for watcher in self._watchers.values():
            if not watcher.is_ready.done():
                watcher.is_ready.set_exception(MetadataStoreError(_ENDED))
        self._finished.set_result(None)
        if not self._is_closing:
            for callback in self._lost:
                callback()


def _set_ready(watcher: _Watcher) -> None:
    if not watcher.is_ready.done():
        watcher.is_ready.set_result(None)
