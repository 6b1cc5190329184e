"""Serves a metadata store to other processes of this machine, over a Unix socket: each connection is a session.

The supervisor of several workers owns the store's file. The keys that a worker has leased are removed when its
connection ends, whether the worker has closed it or has died.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStore, MetadataStoreError, Versioned
from klamm.metadata.store_frames import (
    LENGTH,
    MAXIMUM_BYTES,
    decode,
    decode_changes,
    encode,
    entries_of,
)

__all__ = ["StoreServer"]

_logger = logging.getLogger(__name__)

_UNSENT_BYTES: Final = 64 * 1024 * 1024
"""A session that has more bytes to read than this, and than the content, is ended: its process does not read."""


class StoreServer:
    """Serves one store from `start` to `stop`, on the loop that started it. It does not close the store."""

    def __init__(self, store: MetadataStore, path: Path) -> None:
        """Creates the server. `path` is the socket, which only this user may open."""
        self._store = store
        self._path = path
        self._entries: dict[str, Versioned] = {}
        self._revision = 0
        self._sessions: set[_Session] = set()
        self._leases: dict[str, _Session] = {}
        """The session that has leased each leased key."""
        self._listening: socket.socket | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def start(self) -> None:
        """Begins to serve. Raises MetadataStoreError if the store can't be read, and OSError."""
        await self._store.watch(self._on_commit)
        self._path.unlink(missing_ok=True)
        self._listening = listening = socket.socket(socket.AF_UNIX)
        listening.setblocking(False)
        mask = os.umask(0o077)
        try:
            listening.bind(str(self._path))
        finally:
            os.umask(mask)
        listening.listen()
        # asyncio's own servers forget connections that they accept just before `close`, and leave them open.
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def stop(self) -> None:
        """Ends all sessions, and waits until their leased keys are removed."""
        if self._listening is None:
            return
        self._is_stopping = True
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        self._listening = None
        self._path.unlink(missing_ok=True)
        for session in self._sessions:
            session.end()
        await asyncio.gather(*self._serving)

    def _on_commit(self, commit: Commit) -> None:
        for key, entry in commit.entries.items():
            if entry is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = entry
        self._revision = commit.revision
        watching = [session for session in self._sessions if session.is_watching]
        if watching:
            frame = encode({"commit": commit.revision, "entries": entries_of(commit.entries)})
            for session in watching:
                session.send(frame)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:  # the client has gone again
            return
        connection.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        if self._is_stopping:  # accepted just before
            writer.close()
            return
        session = _Session(writer)
        self._sessions.add(session)
        try:
            # What a client has sent before its session was ended must not happen later: it was told of the end.
            while (message := await _read(reader)) is not None and "end" not in message and not session.is_over:
                await self._handle(session, message)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _logger.warning("a session with the metadata store is ended: %s", error)
        finally:
            self._sessions.discard(session)
            # A client that waits for the end of the connection then knows that its keys are gone.
            await self._remove_leased(session)
            session.end()

    async def _handle(self, session: _Session, message: Mapping[str, Any]) -> None:
        if "watch" in message:
            session.is_watching = True
            content = entries_of(dict(sorted(self._entries.items())))
            frame = encode({"content": message["watch"], "revision": self._revision, "entries": content})
            session.unsent_limit += len(frame)
            session.send(frame)
            return
        if "reach" in message:
            session.send(encode({"done": message["reach"], "revision": self._revision}))
            return
        answer: dict[str, Any] = {"done": message["transact"]}
        changes = decode_changes(message["changes"])
        try:
            answer["revision"] = await self._store.transact(message["conditions"], changes)
        except ConditionFailed as error:
            answer["condition"] = str(error)
        except MetadataStoreError as error:
            answer["error"] = str(error)
        else:
            for change in changes:
                if change.is_leased and change.value is not None:
                    self._leases[change.key] = session
                else:
                    self._leases.pop(change.key, None)
        session.send(encode(answer))

    async def _remove_leased(self, session: _Session) -> None:
        gone = [key for key, holder in self._leases.items() if holder is session]
        for key in gone:
            del self._leases[key]
        if gone:
            try:
                await self._store.transact({}, [Change(key, None) for key in gone])
            except MetadataStoreError as error:
                _logger.error("the keys of an ended session can't be removed: %s", error)


class _Session:
    """One connection of a client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.is_watching = False
        self.unsent_limit = _UNSENT_BYTES
        self._writer = writer

    @property
    def is_over(self) -> bool:
        """Whether the connection is closed, or is about to be closed."""
        return self._writer.is_closing()

    def send(self, frame: bytes) -> None:
        """Sends a frame, or ends the session if its client does not read."""
        if self.is_over:
            return
        self._writer.write(frame)
        if self._writer.transport.get_write_buffer_size() > self.unsent_limit:
            _logger.error("a session with the metadata store is ended: its process does not read")
            self._writer.transport.abort()

    def end(self) -> None:
        """Closes the connection."""
        self._writer.close()


async def _read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Returns the next message; None at the end of the connection. Raises ValueError, OSError."""
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if length > MAXIMUM_BYTES:
            raise ValueError(f"a frame of {length} bytes")
        return decode(await reader.readexactly(length))
    except asyncio.IncompleteReadError:
        return None
