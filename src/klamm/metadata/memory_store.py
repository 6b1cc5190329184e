"""A metadata store in memory, for several brokers in one process: `MemoryMetadata` has the content, and each broker has
a `MemoryStore`, its session.

Nothing survives the process. Clusters in tests use it; a broker's restart is a new session.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStoreError, Versioned

__all__ = ["MemoryMetadata", "MemoryStore"]

_ENDED: Final = "the session with the metadata store has ended"


class _Watcher(NamedTuple):
    on_commit: Callable[[Commit], None]
    prepare: Callable[[Commit], None] | None


class MemoryMetadata:
    """The content of the store, shared by all sessions. Sessions may belong to different event loops and threads."""

    def __init__(self, *, maximum_operations: int | None = None) -> None:
        """Creates an empty store. `maximum_operations`: see `MetadataStore`."""
        self.maximum_operations = maximum_operations
        self._lock: Final = threading.Lock()
        self._revision = 0
        self._entries: dict[str, Versioned] = {}
        self._leases: dict[str, MemoryStore] = {}
        """The session that holds each leased key."""
        self._sessions: list[MemoryStore] = []

    def connect(self) -> MemoryStore:
        """Returns a new session. Must be called on the event loop that uses it."""
        session = MemoryStore(self)
        with self._lock:
            self._sessions.append(session)
        return session

    def _read_all(self) -> Commit:
        return Commit(self._revision, dict(sorted(self._entries.items())))

    def _transact(self, session: MemoryStore, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        with self._lock:
            if session.is_over:
                raise MetadataStoreError(_ENDED)
            for key, expected in conditions.items():
                entry = self._entries.get(key)
                if (0 if entry is None else entry.mod_revision) != expected:
                    raise ConditionFailed(f"{key} is not at revision {expected}")
            return self._write(session, changes)

    def _write(self, session: MemoryStore, changes: Sequence[Change]) -> int:
        self._revision += 1
        made: dict[str, Versioned | None] = {}
        for key, value, is_leased in changes:
            self._leases.pop(key, None)
            if value is None:
                self._entries.pop(key, None)
                made[key] = None
                continue
            before = self._entries.get(key)
            created = self._revision if before is None else before.create_revision
            made[key] = self._entries[key] = Versioned(value, created, self._revision)
            if is_leased:
                self._leases[key] = session
        commit = Commit(self._revision, made)
        for each in self._sessions:
            each._tell(commit)
        return self._revision

    def _end(self, session: MemoryStore) -> None:
        with self._lock:
            if session.is_over:
                return
            session.is_over = True
            self._sessions.remove(session)
            gone = [Change(key, None) for key, holder in self._leases.items() if holder is session]
            if gone:
                self._write(session, gone)


class MemoryStore:
    """A `MetadataStore`: one broker's session with the metadata in memory."""

    is_shared = True

    def __init__(self, metadata: MemoryMetadata) -> None:
        """Creates the session. Use `MemoryMetadata.connect`."""
        self.maximum_operations: Final = metadata.maximum_operations
        self.is_over = False
        self._metadata = metadata
        self._loop = asyncio.get_running_loop()
        self._watchers: list[_Watcher] = []
        self._lost: list[Callable[[], None]] = []

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """Implements `MetadataStore.watch`."""
        watcher = _Watcher(on_commit, prepare)
        with self._metadata._lock:
            everything = self._metadata._read_all()
            # Commits from now on are delivered in later iterations of the loop, so after the content.
            self._watchers.append(watcher)
        _deliver(watcher, everything)

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """Implements `MetadataStore.transact`."""
        assert len({change.key for change in changes}) == len(changes), "a key occurs once in a transaction"
        if self.maximum_operations is not None:
            assert max(len(conditions), len(changes)) <= self.maximum_operations, "a transaction is too large"
        try:
            return self._metadata._transact(self, conditions, changes)
        finally:
            await self._delivered()

    async def catch_up(self) -> None:
        """Implements `MetadataStore.catch_up`."""
        if self.is_over:
            raise MetadataStoreError(_ENDED)
        await self._delivered()

    def valid_until(self) -> float:
        """Implements `MetadataStore.valid_until`."""
        return -math.inf if self.is_over else math.inf

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Implements `MetadataStore.on_session_lost`."""
        self._lost.append(callback)

    async def close(self) -> None:
        """Implements `MetadataStore.close`."""
        self._metadata._end(self)
        await self._delivered()

    def lose(self) -> None:
        """Ends the session as if its broker had not been heard of for too long. May be called on any thread."""
        if not self.is_over:
            self._metadata._end(self)
            for callback in self._lost:
                self._call_soon(callback)

    def _tell(self, commit: Commit) -> None:
        """Delivers the commit on the session's own loop."""
        for watcher in self._watchers:
            self._call_soon(_deliver, watcher, commit)

    def _call_soon(self, callback: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)

    async def _delivered(self) -> None:
        """Waits until the watchers have received all commits that were made before this call."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._loop.call_soon_threadsafe(done.set_result, None)
        await asyncio.shield(done)


def _deliver(watcher: _Watcher, commit: Commit) -> None:
    if watcher.prepare is not None:
        watcher.prepare(commit)
    watcher.on_commit(commit)
