"""Partitions that this broker follows, as consumers read them (KIP-392), and the reads that wait for more records.

A consumer gets from a follower what it would get from the leader, up to the follower's high watermark, which rises with
the answers of the leader.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from klamm.broker.partitions.role import wrong_leader_epoch

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import AppendObserver
    from klamm.metadata.image import PartitionImage
    from klamm.protocol.types import Offset, TopicId
    from klamm.storage.log.log import Log

__all__ = ["FollowedPartition", "FollowerReads"]

_MOST_UNCOMMITTED: Final = 1000
"""Number of copies whose sizes are remembered one by one until they are committed."""


class FollowedPartition:
    """One partition at a follower, for one read: what `Partition` offers to consumers at the leader."""

    __slots__ = ("_key", "_leader_epoch", "_reads", "log")

    def __init__(self, topic_id: TopicId, image: PartitionImage, log: Log, reads: FollowerReads) -> None:
        self.log = log
        self._key = topic_id, image.index
        self._leader_epoch = image.leader_epoch
        self._reads = reads

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Refuses a consumer whose leader epoch is not the one in which this broker follows (KIP-320); -1 skips it.

        Raises FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch not in (-1, self._leader_epoch):
            raise wrong_leader_epoch(str(self.log), current_leader_epoch, self._leader_epoch)

    def observe(self, observer: AppendObserver) -> None:
        """Notifies `observer` of records that become visible here, until `release`."""
        self._reads.wait(self._key, observer)

    def release(self, observer: AppendObserver) -> None:
        """Stops notifying `observer`."""
        self._reads.release(self._key, observer)


class _Waiting:
    """The reads that wait for one partition, and what was copied meanwhile."""

    __slots__ = ("observers", "uncommitted")

    def __init__(self) -> None:
        self.observers: dict[AppendObserver, None] = {}
        self.uncommitted: deque[tuple[Offset, int]] = deque()
        """End offset and size of records that are not below the high watermark yet. The last entry may stand for
        several copies."""


class FollowerReads:
    """The consumers' reads that wait at this broker for records of partitions that it follows."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[TopicId, int], _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def wait(self, key: tuple[TopicId, int], observer: AppendObserver) -> None:
        """Notifies `observer` of records that become visible, until `release`."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting()
        waiting.observers[observer] = None

    def release(self, key: tuple[TopicId, int], observer: AppendObserver) -> None:
        """Stops notifying `observer`."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.observers.pop(observer, None)
            if not waiting.observers:
                del self._waiting[key]

    def copied(self, key: tuple[TopicId, int], end_offset: Offset, size_bytes: int) -> None:
        """Takes note of records that the log has up to `end_offset` now."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        uncommitted = waiting.uncommitted
        if len(uncommitted) >= _MOST_UNCOMMITTED:
            # With too few replicas in sync, producers with acks=1 may go on for hours, and nothing is committed.
            size_bytes += uncommitted.pop()[1]
        uncommitted.append((end_offset, size_bytes))

    def committed(self, key: tuple[TopicId, int], high_watermark: Offset) -> None:
        """Tells the waiting reads that the high watermark has risen."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        size_bytes = 0
        uncommitted = waiting.uncommitted
        while uncommitted and uncommitted[0][0] <= high_watermark:
            size_bytes += uncommitted.popleft()[1]
        for observer in tuple(waiting.observers):
            if size_bytes:
                observer.appended(size_bytes)
            else:  # copied before the read began to wait, so the size is not known
                observer.interrupted()

    def end(self, key: tuple[TopicId, int]) -> None:
        """Ends the wait of all reads of a partition, so that they read again: its leader or its log has changed."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            for observer in tuple(waiting.observers):
                observer.interrupted()
