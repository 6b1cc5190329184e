"""The metadata store of a single node: one SQLite file, one thread that writes it.

A transaction is on the disk before it is answered (WAL with synchronous=FULL), so what a client was told survives a
power loss. SQLite is in Python's standard library, and any tool can look into its file while the broker is down.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Self, TypeVar

from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStoreError, Versioned

__all__ = ["SqliteStore"]

_FORMAT: Final = 1
_FILE_MODE: Final = 0o600
"""Only the user that the broker runs as may read it, as the logs."""
_SCHEMA: Final = f"""
    BEGIN;
    CREATE TABLE entries (
        key TEXT PRIMARY KEY NOT NULL,
        value BLOB NOT NULL,
        create_revision INTEGER NOT NULL,
        mod_revision INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE revision (current INTEGER NOT NULL);
    INSERT INTO revision VALUES (0);
    PRAGMA user_version = {_FORMAT};
    COMMIT;
"""
_UPSERT: Final = """
    INSERT INTO entries VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, mod_revision = excluded.mod_revision
"""

T = TypeVar("T")


class SqliteStore:
    """`MetadataStore` over a file. Made and used on the event loop's thread; its own thread has the connection."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Use `open`. From here on the connection belongs to the store's thread."""
        self._path = path
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._requests: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._watchers: list[Callable[[Commit], None]] = []
        self._preparing: list[Callable[[Commit], None]] = []
        """What the store's own thread tells of a commit."""
        self._closed = False
        self._finished: asyncio.Future[None] = self._loop.create_future()
        # A daemon, so that a process whose loop died can still end: a transaction is whole or not there at any moment.
        self._thread = threading.Thread(target=self._run, name="metadata-store", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: Path) -> Self:
        """The store in the file at `path`, which is made if there is none.

        Raises MetadataStoreError when it can't be opened, is in use, is not a metadata store, or is of a later format.
        """
        return cls(path, await asyncio.to_thread(_open, path))

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """See `MetadataStore.watch`."""

        def read() -> Commit:
            everything = _read_all(self._connection)
            if prepare is not None:
                prepare(everything)
                self._preparing.append(prepare)
            return everything

        def begin(everything: Commit) -> None:
            on_commit(everything)
            self._watchers.append(on_commit)

        await self._submit(read, begin)

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """See `MetadataStore.transact`."""
        assert len({change.key for change in changes}) == len(changes), "a key occurs once in a transaction"

        def write() -> Commit:
            commit = _transact(self._connection, conditions, changes)
            for prepare in self._preparing:
                prepare(commit)
            return commit

        return (await self._submit(write, self._publish)).revision

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        if not self._closed:
            self._closed = True
            self._requests.put(None)
        await asyncio.shield(self._finished)
        self._thread.join()

    def _publish(self, commit: Commit) -> None:
        for on_commit in self._watchers:
            on_commit(commit)

    async def _submit(self, work: Callable[[], T], then: Callable[[T], None]) -> T:
        """Do `work` in the store's thread and `then` on the loop, before anything that a later request brings there.

        `then` does not depend on the caller's patience: a cancelled caller's commit is published like any other.
        """
        if self._closed:
            raise MetadataStoreError("the metadata store is closed")
        answer: asyncio.Future[T] = self._loop.create_future()

        def fail(error: Exception) -> None:
            if not answer.done():
                answer.set_exception(error)

        def succeed(result: T) -> None:
            try:
                then(result)
            except Exception as error:
                fail(error)
            if not answer.done():
                answer.set_result(result)

        def request() -> None:
            try:
                result = work()
            except sqlite3.Error as error:
                failure = MetadataStoreError(f"{self._path}: {error}")
                failure.__cause__ = error
                self._loop.call_soon_threadsafe(fail, failure)
            except Exception as error:
                self._loop.call_soon_threadsafe(fail, error)
            else:
                self._loop.call_soon_threadsafe(succeed, result)

        self._requests.put(request)
        return await answer

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            request()
        # Closing the last connection folds the WAL into the file and removes it.
        self._connection.close()
        self._loop.call_soon_threadsafe(self._finished.set_result, None)


def _open(path: Path) -> sqlite3.Connection:
    try:
        # SQLite gives what it makes beside the file the same mode. An empty file is an empty store to it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
    except OSError as error:
        raise MetadataStoreError(f"cannot open the metadata store {path}: {error.strerror}") from error
    try:
        # Autocommit: every transaction below says its own BEGIN. No waiting for locks: who holds one is another broker.
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise MetadataStoreError(f"cannot open the metadata store {path}: {error}") from error
    try:
        # One process at a time; this also spares the shared-memory file, which network file systems do badly.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found == 0:
            connection.executescript(_SCHEMA)
        elif found != _FORMAT:
            raise MetadataStoreError(f"the metadata store {path} has format {found}; this klamm knows {_FORMAT}")
    except sqlite3.Error as error:
        connection.close()
        reason = "it is in use by another process" if "locked" in str(error) else str(error)
        raise MetadataStoreError(f"cannot open the metadata store {path}: {reason}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _read_all(connection: sqlite3.Connection) -> Commit:
    (revision,) = connection.execute("SELECT current FROM revision").fetchone()
    rows = connection.execute("SELECT key, value, create_revision, mod_revision FROM entries ORDER BY key")
    return Commit(revision, {key: Versioned(*version) for key, *version in rows})


def _transact(connection: sqlite3.Connection, conditions: Mapping[str, int], changes: Sequence[Change]) -> Commit:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for key, expected in conditions.items():
            row = connection.execute("SELECT mod_revision FROM entries WHERE key = ?", (key,)).fetchone()
            if (0 if row is None else row[0]) != expected:
                raise ConditionFailed(f"{key} is not at revision {expected}")
        connection.execute("UPDATE revision SET current = current + 1")
        (revision,) = connection.execute("SELECT current FROM revision").fetchone()
        entries = {key: _write(connection, revision, key, value) for key, value in changes}
        connection.execute("COMMIT")
    except BaseException:
        # After some errors, a full disk among them, SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return Commit(revision, entries)


def _write(connection: sqlite3.Connection, revision: int, key: str, value: bytes | None) -> Versioned | None:
    if value is None:
        connection.execute("DELETE FROM entries WHERE key = ?", (key,))
        return None
    (created,) = connection.execute(_UPSERT + " RETURNING create_revision", (key, value, revision, revision)).fetchone()
    return Versioned(value, created, revision)
