"""The metadata store of a simulated broker: it is in memory, and acknowledged transactions outlast the broker's
process.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

from klamm.metadata.metadata_store import Change, Commit, ConditionFailed, MetadataStoreError, Versioned

__all__ = ["MemoryStore", "StoredMetadata"]


class StoredMetadata:
    """The entries on the disk."""

    def __init__(self) -> None:
        self.revision = 0
        self.entries: dict[str, Versioned] = {}
        self.leased: set[str] = set()
        """The keys that end with the process that wrote them."""


class MemoryStore:
    """A `MetadataStore` for one process of a broker; a transaction takes `latency_s` to reach the disk."""

    is_shared = False
    maximum_operations: int | None = None

    def __init__(self, stored: StoredMetadata, latency_s: float) -> None:
        self._stored = stored
        self._latency_s = latency_s
        self._watchers: list[tuple[Callable[[Commit], None], Callable[[Commit], None] | None]] = []
        self._is_closed = False
        if stored.leased:
            # The process before is dead, as for a store in a file.
            stored.revision += 1
            for key in sorted(stored.leased):
                stored.entries.pop(key, None)
            stored.leased.clear()

    async def watch(
        self, on_commit: Callable[[Commit], None], *, prepare: Callable[[Commit], None] | None = None
    ) -> None:
        """See `MetadataStore.watch`."""
        self._watchers.append((on_commit, prepare))
        everything = Commit(self._stored.revision, dict(self._stored.entries))
        if prepare is not None:
            prepare(everything)
        on_commit(everything)

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """See `MetadataStore.transact`."""
        await asyncio.sleep(self._latency_s)
        if self._is_closed:
            raise MetadataStoreError("the metadata store is closed")
        stored = self._stored
        for key, revision in conditions.items():
            entry = stored.entries.get(key)
            if (0 if entry is None else entry.mod_revision) != revision:
                raise ConditionFailed(f"{key} is not at revision {revision}")
        stored.revision += 1
        made: dict[str, Versioned | None] = {}
        for key, value, is_leased in changes:
            stored.leased.discard(key)
            if is_leased:
                stored.leased.add(key)
            if value is None:
                stored.entries.pop(key, None)
                made[key] = None
                continue
            before = stored.entries.get(key)
            created = stored.revision if before is None else before.create_revision
            made[key] = stored.entries[key] = Versioned(value, created, stored.revision)
        commit = Commit(stored.revision, made)
        for on_commit, prepare in self._watchers:
            if prepare is not None:
                prepare(commit)
            on_commit(commit)
        return commit.revision

    async def catch_up(self) -> None:
        """See `MetadataStore.catch_up`: watchers know each commit before its transaction returns."""
        if self._is_closed:
            raise MetadataStoreError("the metadata store is closed")

    def valid_until(self) -> float:
        """See `MetadataStore.valid_until`."""
        return math.inf

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Does nothing: a process of the broker has the store for itself."""

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        self._is_closed = True
