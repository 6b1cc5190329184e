"""What a watch of a store in etcd has delivered on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from klamm.metadata.etcd.etcd_watch import EtcdWatch
from klamm.metadata.metadata_store import Commit

__all__ = ["Watcher"]


class Watcher:
    """A watch, and what it has delivered on the loop."""

    def __init__(
        self, on_commit: Callable[[Commit], None], prepare: Callable[[Commit], None] | None, ready: asyncio.Future[None]
    ) -> None:
        self.on_commit = on_commit
        self.prepare = prepare
        self.ready = ready
        self.revision = 0
        self.known: dict[str, int] = {}
        self.watch: EtcdWatch

    def show(self, commit: Commit) -> None:
        """Delivers a commit on the loop."""
        for key, entry in commit.entries.items():
            if entry is None:
                self.known.pop(key, None)
            else:
                self.known[key] = entry.mod_revision
        self.on_commit(commit)

    def has_seen(self, found: Mapping[str, int], revision: int) -> bool:
        """Returns whether it has delivered the state of the keys that a transaction found at the revision."""
        if self.revision >= revision:
            return True
        return all(
            self.revision >= modified if modified else not 0 < self.known.get(key, 0) <= revision
            for key, modified in found.items()
        )
