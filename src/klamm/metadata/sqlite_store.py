"""The metadata store of a single node: one SQLite file, written by one thread.

A transaction is on the disk before it returns (WAL with synchronous=FULL), so acknowledged changes survive a power
failure. SQLite is in Python's standard library, and any tool can read its file while the broker is stopped.

The file has one session at a time, which holds an exclusive lock. So `open` removes the leased keys of an earlier
session that did not end with `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
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
"""Only the user that runs the broker may read it, as for the logs."""
_CLOSED: Final = "the metadata store is closed"
_LEASES: Final = "CREATE TABLE IF NOT EXISTS leases (key TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;"
"""The keys that end with the session. Stores of earlier versions have no such table."""
_SCHEMA: Final = f"""
    BEGIN;
    CREATE TABLE entries (
        key TEXT PRIMARY KEY NOT NULL,
        value BLOB NOT NULL,
        create_revision INTEGER NOT NULL,
        mod_revision INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE revision (current INTEGER NOT NULL);
    {_LEASES}
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
    """A `MetadataStore` in a file. Created and used on the event loop's thread; its own thread owns the connection."""

    is_shared = False
    maximum_operations: int | None = None

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Starts the store's thread, which owns the connection from now on. Use `open`."""
        self._path = path
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._requests: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._watchers: list[Callable[[Commit], None]] = []
        self._preparing: list[Callable[[Commit], None]] = []
        """The functions that the store's own thread calls with each commit."""
        self._closed = False
        self._finished: asyncio.Future[None] = self._loop.create_future()
        # A daemon, so that a process whose loop died can still end: at any moment a transaction is complete or absent.
        self._thread = threading.Thread(target=self._run, name="metadata-store", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Opens the store in the file at `path`, and creates the file if necessary.

        Raises MetadataStoreError if the file can't be opened, is in use, is not a metadata store, or has a later
        format.
        """
        return cls(path, await asyncio.to_thread(_open, path))

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """Implements `MetadataStore.watch`."""

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
        """Implements `MetadataStore.transact`."""
        assert len({change.key for change in changes}) == len(changes), "a key occurs once in a transaction"

        def write() -> Commit:
            commit = _transact(self._connection, conditions, changes)
            for prepare in self._preparing:
                prepare(commit)
            return commit

        return (await self._submit(write, self._publish)).revision

    async def catch_up(self) -> None:
        """Does nothing: the watchers know each commit before its transaction returns, and there is one session."""
        if self._closed:
            raise MetadataStoreError(_CLOSED)

    def valid_until(self) -> float:
        """Returns infinity: no other broker uses the store."""
        return math.inf

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Does nothing: the session of the only process ends with `close`, or with the process."""

    async def close(self) -> None:
        """Implements `MetadataStore.close`."""
        if not self._closed:
            self._closed = True
            self._requests.put(None)
        await asyncio.shield(self._finished)
        self._thread.join()

    def _publish(self, commit: Commit) -> None:
        for on_commit in self._watchers:
            on_commit(commit)

    async def _submit(self, work: Callable[[], T], then: Callable[[T], None]) -> T:
        """Runs `work` on the store's thread and then `then` on the loop, in the order of the requests.

        `then` also runs if the caller is cancelled: its commit is published like any other.
        """
        if self._closed:
            raise MetadataStoreError(_CLOSED)
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
        with contextlib.suppress(sqlite3.Error):  # otherwise the next `open` removes them
            _remove_leased(self._connection)
        # Closing the last connection folds the WAL into the file and removes it.
        self._connection.close()
        self._loop.call_soon_threadsafe(self._finished.set_result, None)


def _open(path: Path) -> sqlite3.Connection:
    try:
        # SQLite creates its other files with the same mode. It treats an empty file as an empty store.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
    except OSError as error:
        raise MetadataStoreError(f"cannot open the metadata store {path}: {error.strerror}") from error
    try:
        # Autocommit: every transaction below has its own BEGIN. No waiting for locks, because only another broker can
        # hold one.
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise MetadataStoreError(f"cannot open the metadata store {path}: {error}") from error
    try:
        # One process at a time. This also avoids the shared-memory file, which network file systems support badly.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found == 0:
            connection.executescript(_SCHEMA)
        elif found != _FORMAT:
            raise MetadataStoreError(f"the metadata store {path} has format {found}; this klamm knows {_FORMAT}")
        else:
            connection.execute(_LEASES)
            _remove_leased(connection)
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
        entries = {change.key: _write(connection, revision, change) for change in changes}
        connection.execute("COMMIT")
    except BaseException:
        # After some errors, for example a full disk, SQLite has already rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return Commit(revision, entries)


def _remove_leased(connection: sqlite3.Connection) -> None:
    """Removes the keys that end with the session."""
    keys = [key for (key,) in connection.execute("SELECT key FROM leases")]
    if keys:
        _transact(connection, {}, [Change(key, None) for key in keys])


def _write(connection: sqlite3.Connection, revision: int, change: Change) -> Versioned | None:
    key, value, is_leased = change
    if is_leased and value is not None:
        connection.execute("INSERT OR IGNORE INTO leases VALUES (?)", (key,))
    else:
        connection.execute("DELETE FROM leases WHERE key = ?", (key,))
    if value is None:
        connection.execute("DELETE FROM entries WHERE key = ?", (key,))
        return None
    (created,) = connection.execute(_UPSERT + " RETURNING create_revision", (key, value, revision, revision)).fetchone()
    return Versioned(value, created, revision)
