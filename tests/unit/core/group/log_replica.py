"""A replica of the log for long tests, which is updated after each step."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.core.group.shard_driver import Written

from klamm.core.group.group_kinds import empty_store
from klamm.core.group.group_store import GroupStore
from klamm.protocol.types import Offset

__all__ = ["LogReplica"]


class LogReplica:
    """A store that is replayed from the log. Logs only grow here, so each record is replayed once."""

    def __init__(self) -> None:
        self._store = empty_store()
        self._end = 0

    def follow(self, log: Sequence[Written]) -> GroupStore:
        """Replays the new records of the log, and returns the store."""
        for written in log[self._end :]:
            self._store.replay(Offset(self._end), written.producer_id, written.record)
            self._end += 1
        return self._store
