"""The logs of partitions that this broker follows, for the fetchers that copy records into them.

The registry of partitions adds and removes entries in step with the metadata. So a fetcher that asks for the entry
before each append never writes into a log that this broker leads now, or that follows another leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from klamm.core.replication.follower_fetch import FetchPosition

if TYPE_CHECKING:
    from klamm.protocol.types import BrokerId, LeaderEpoch, TopicId
    from klamm.storage.log.log import Log

__all__ = ["FollowedLog", "ReplicaLogs"]

_Key: TypeAlias = "tuple[TopicId, int]"


class FollowedLog(NamedTuple):
    """The log of a partition that this broker follows, the leader, and the leader epoch in which to follow it."""

    topic_id: TopicId
    log: Log
    leader: BrokerId
    leader_epoch: LeaderEpoch

    @property
    def key(self) -> _Key:
        """The topic id and the index of the partition."""
        return self.topic_id, self.log.topic_partition.partition

    @property
    def position(self) -> FetchPosition:
        """What the next Fetch asks for and tells about the log."""
        log = self.log
        return FetchPosition(
            self.leader_epoch, log.log_end_offset, log.latest_epoch, log.log_start_offset, log.high_watermark
        )


class ReplicaLogs:
    """All partitions that this broker follows, by topic id and index."""

    def __init__(self) -> None:
        self._logs: dict[_Key, FollowedLog] = {}
        self._observer: Callable[[FollowedLog | None, FollowedLog | None], None] = _ignore

    def observe(self, observer: Callable[[FollowedLog | None, FollowedLog | None], None]) -> None:
        """Calls `observer(old, new)` with every change: with None for a partition that is not followed."""
        self._observer = observer

    def get(self, key: _Key) -> FollowedLog | None:
        """Returns the entry of a partition; None if this broker does not follow it."""
        return self._logs.get(key)

    def __iter__(self) -> Iterator[FollowedLog]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def follow(self, followed: FollowedLog) -> None:
        """Begins to follow a partition, or follows another leader or in another leader epoch."""
        old = self._logs.get(followed.key)
        if old != followed:
            self._logs[followed.key] = followed
            self._observer(old, followed)

    def leave(self, key: _Key) -> None:
        """Stops following a partition. Does nothing if it is not followed."""
        old = self._logs.pop(key, None)
        if old is not None:
            self._observer(old, None)


def _ignore(old: FollowedLog | None, new: FollowedLog | None) -> None:
    """Ignores a change: no fetcher runs yet."""
