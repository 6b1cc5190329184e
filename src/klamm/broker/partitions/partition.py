"""One partition that this broker leads: checks before reads and writes, appends, and observers of appends and commits.

`core/replication/high_watermark.py` decides how far the high watermark rises. With one replica it follows the log end
offset, with `klamm.fsync=ack` the offset up to which the log is on the disk. With several replicas it also waits for
the followers (`followers.py`).

A `Partition` leads from its creation until `resign`, under one or several leader epochs. After that it refuses all
requests: a handler may still hold it. The log stays; when this broker leads again, the registry creates a new
`Partition` over the same log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from klamm.broker.partitions.role import wrong_leader_epoch
from klamm.core.log.batch_opening import open_now
from klamm.core.log.transaction_verification import NO_GUARD
from klamm.core.replication.high_watermark import next_high_watermark
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, Offset

if TYPE_CHECKING:
    from klamm.broker.partitions.followers import Followers
    from klamm.broker.partitions.fsync_batcher import FsyncBatcher
    from klamm.broker.partitions.warm_reads import WarmRead
    from klamm.config.topic_config import TopicConfig
    from klamm.core.log.batch_opening import BatchOpening
    from klamm.metadata.image import PartitionImage
    from klamm.storage.log.log import Log
    from klamm.storage.log.log_appender import AppendInfo

__all__ = ["AppendObserver", "CommitObserver", "Partition"]

_places: Final = count()
_MOST_UNCOMMITTED: Final = 1000
"""Number of batches whose sizes are remembered one by one until they are committed."""


class AppendObserver(Protocol):
    """An observer that waits for a partition to grow, or for a change that makes waiting pointless."""

    def appended(self, size_bytes: int) -> None:
        """Receives the size of records that became visible to consumers."""

    def interrupted(self) -> None:
        """Ends the wait: the partition was deleted or resigned, its log is offline, or its leader epoch changed.

        Read again.
        """


class CommitObserver(Protocol):
    """An observer that waits for an appended record to be committed. It can be hashed."""

    def committed(self) -> None:
        """Ends the wait: the record is committed (below the high watermark)."""

    def failed(self, code: ErrorCode) -> None:
        """Ends the wait: the record will not be committed, as far as this broker can tell."""


class Partition:
    """One partition that this broker leads."""

    __slots__ = (
        "_commit_observers",
        "_commits_at_once",
        "_end_observers",
        "_forgotten",
        "_fsync_batcher",
        "_high_watermark_listeners",
        "_in_sync_replicas",
        "_min_in_sync_replicas",
        "_observers",
        "_uncommitted",
        "accepts_writes",
        "epoch_start_offset",
        "followers",
        "image",
        "index",
        "leader_epoch",
        "leads",
        "log",
        "may_commit",
        "topic",
        "warm_read",
    )

    def __init__(self, topic: str, image: PartitionImage, log: Log, fsync_batcher: FsyncBatcher | None = None) -> None:
        """Takes over the log. With a `fsync_batcher`, records are committed after a sync, otherwise at once."""
        self.topic = topic
        self.index = image.index
        self.log = log
        self.leads = True
        """Whether this broker leads the partition. False after `resign`, forever."""
        self.accepts_writes = True
        """Whether records may be appended and committed. False after `refuse_writes` and `resign`, forever."""
        self.may_commit: Callable[[], bool] | None = None
        """Returns False from the moment at which another broker may lead the partition, even if this broker has not
        heard of it. None for a single broker."""
        self.image = image
        self.leader_epoch = image.leader_epoch
        self.followers: Followers | None = None
        """The followers; None if the partition has one replica. Set with `replicate`."""
        self._in_sync_replicas = self._min_in_sync_replicas = 1
        self._fsync_batcher = fsync_batcher
        self._commits_at_once = fsync_batcher is None
        """Whether a record is committed when it is in the log: no sync and no follower has to be waited for."""
        self.follow(image, log.config)
        self.epoch_start_offset = log.log_end_offset
        """The log end offset when this broker began to lead under this epoch. A high watermark below it may be lower
        than one that clients received earlier."""
        self.warm_read: WarmRead | None = None
        """Batches read ahead for a consumer that will fetch from this partition next."""
        self._observers: dict[AppendObserver, None] = {}
        self._end_observers: dict[AppendObserver, None] = {}
        """Fetches of followers, which read up to the log end offset."""
        self._high_watermark_listeners: list[Callable[[Offset], None]] = []
        self._uncommitted: deque[tuple[Offset, int]] = deque()
        """End offset and size of each batch that is not committed yet. The last one may stand for several batches."""
        self._commit_observers: list[tuple[Offset, int, CommitObserver]] = []
        """A heap by the high watermark that each observer waits for."""
        self._forgotten: set[CommitObserver] = set()
        """Observers that wait no longer, and may still be in the heap."""

    def follow(self, image: PartitionImage, config: TopicConfig) -> None:
        """Takes over replicas, in-sync replicas and the topic's configuration from the metadata."""
        self.log.update_config(config)
        self.image = image
        self._in_sync_replicas = len(image.isr)
        # As in Kafka, `min.insync.replicas` requires no more replicas than the partition has.
        self._min_in_sync_replicas = min(config.min_insync_replicas, len(image.replicas))
        if self.followers is not None:
            self.followers.follow(image)

    def lead(self, leader_epoch: LeaderEpoch) -> None:
        """Continues to lead under another leader epoch; `replicate` follows if the partition has followers."""
        self.leader_epoch = leader_epoch
        self.log.assign_leader_epoch(leader_epoch)
        self.epoch_start_offset = self.log.log_end_offset

    def replicate(self, followers: Followers | None) -> None:
        """Waits with commits for these followers from now on; None: the partition has no other replica.

        The followers' state begins with this leader epoch, or when the second replica is added.
        """
        self.followers = followers
        self._commits_at_once = followers is None and self._fsync_batcher is None

    def follower_fetched(
        self, broker_id: BrokerId, broker_epoch: int, end_offset: Offset, start_offset: Offset
    ) -> None:
        """Records that a follower holds the records below `end_offset`; commits what all in-sync replicas hold."""
        assert self.followers is not None
        self.followers.fetched(self, broker_id, broker_epoch, end_offset, start_offset)
        if self._uncommitted or self.log.high_watermark < self.log.log_end_offset:
            self.reconsider_high_watermark()

    def resign(self) -> None:
        """Stops leading: from now on every request is refused, and the high watermark stands still.

        Notifies no observer; see `fail_commits` and `interrupt_observers`.
        """
        self.leads = self.accepts_writes = False

    def refuse_writes(self) -> None:
        """Appends and commits nothing more, because another broker may lead the partition now. Reads continue, up to
        the present high watermark.

        Notifies no observer; see `fail_commits`.
        """
        self.accepts_writes = False

    def check_leads(self) -> None:
        """Raises NOT_LEADER_OR_FOLLOWER after `resign`."""
        if not self.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self} any more")

    def check_accepts_writes(self) -> None:
        """Raises NOT_LEADER_OR_FOLLOWER after `resign` and after `refuse_writes`."""
        self.check_leads()
        if not self.accepts_writes:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"this broker has lost its session with the metadata store, and may not lead {self} any more",
            )

    def append(
        self,
        records: memoryview | bytes,
        now_ms: Millis,
        *,
        from_client: bool = True,
        verification_guard: int = NO_GUARD,
        transaction_version: int = 0,
        open_batch: Callable[[BatchOpening], memoryview] = open_now,
    ) -> AppendInfo:
        """Appends as leader. Notifies observers when the records are committed, which may be now or later.

        If the disk fails, another in-sync replica is asked for as leader. See `LogAppender.append_as_leader`. Raises
        KafkaError with the code for the response.
        """
        if not self.accepts_writes:
            self.check_accepts_writes()
        log = self.log
        try:
            info = log.appender.append_as_leader(
                records,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                from_client=from_client,
                verification_guard=verification_guard,
                transaction_version=transaction_version,
                open_batch=open_batch,
            )
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and self.followers is not None:
                self.followers.give_up(self)
            raise
        if self._commits_at_once:
            self._raise_high_watermark(log.state.log_end_offset)
            if self._observers or self._high_watermark_listeners or self._commit_observers:
                self._tell_committed(len(records))
        elif not info.is_duplicate:
            self._commit_later(len(records))
        return info

    def _commit_later(self, size_bytes: int) -> None:
        log = self.log
        if len(self._uncommitted) < _MOST_UNCOMMITTED:
            self._uncommitted.append((log.log_end_offset, size_bytes))
        else:
            # With too few replicas in sync, producers with acks=1 may go on for hours, and nothing is committed.
            self._uncommitted[-1] = log.log_end_offset, self._uncommitted[-1][1] + size_bytes
        if self._fsync_batcher is not None:
            self._fsync_batcher.request(log, self._synced)
        for observer in tuple(self._end_observers):
            observer.appended(size_bytes)
        if self._fsync_batcher is None and self.followers is not None and not self.followers.end_offsets:
            self.reconsider_high_watermark()  # no follower is in sync

    def _raise_high_watermark(self, held: Offset) -> None:
        """Raises the high watermark as far as the in-sync replicas allow; this leader holds the records up to `held`.

        The only place where the high watermark of a leader's log rises.
        """
        if self.may_commit is not None and not self.may_commit():
            return
        state = self.log.state
        followers = self.followers
        state.advance_high_watermark(
            next_high_watermark(
                state.high_watermark,
                held,
                () if followers is None else followers.end_offsets,
                self._in_sync_replicas,
                self._min_in_sync_replicas,
            )
        )

    def _tell_committed(self, size_bytes: int) -> None:
        high_watermark = self.log.high_watermark
        if self._observers:
            for observer in tuple(self._observers):
                observer.appended(size_bytes)
        for listener in self._high_watermark_listeners:
            listener(high_watermark)
        waiting = self._commit_observers
        while waiting and waiting[0][0] <= high_watermark:
            heappop(waiting)[2].committed()
        if not waiting:
            self._forgotten.clear()

    def _synced(self) -> None:
        """Commits the records that are on the disk after a sync."""
        self.reconsider_high_watermark()

    def reconsider_high_watermark(self) -> None:
        """Raises the high watermark if a sync or a change of the in-sync replicas allows it, and notifies observers."""
        log = self.log
        # A sync that began before the resignation may end now. The next leader commits by itself.
        if log.is_offline or not self.accepts_writes:
            return
        before = log.high_watermark
        self._raise_high_watermark(log.log_end_offset if self._fsync_batcher is None else log.recovery_point)
        if log.high_watermark == before:
            return
        size_bytes, counted_to = 0, before
        while self._uncommitted and self._uncommitted[0][0] <= log.high_watermark:
            counted_to, batch_bytes = self._uncommitted.popleft()
            size_bytes += batch_bytes
        self._tell_committed(size_bytes)
        if counted_to != log.high_watermark:
            # The size of some records is not known: the log held them when it was opened, for example, or they are only
            # some of the batches that were counted together. A Fetch that waits reads again.
            self.interrupt_observers()

    def commit_found(self) -> None:
        """Commits the records that the log held when it was opened; with `klamm.fsync=ack`, after a sync."""
        log = self.log
        if log.is_offline:
            return
        if self._fsync_batcher is None or log.recovery_point == log.log_end_offset:
            self._raise_high_watermark(log.log_end_offset)
        else:
            self._raise_high_watermark(log.recovery_point)
            self._fsync_batcher.request_tail(log, self._synced)

    def when_committed(self, last_offset: Offset, observer: CommitObserver) -> None:
        """Notifies `observer` once, when `last_offset` is committed or cannot be. It must be uncommitted now."""
        assert self.accepts_writes, f"{self} commits nothing any more"
        heappush(self._commit_observers, (Offset(last_offset + 1), next(_places), observer))

    def forget_commit(self, observer: CommitObserver) -> None:
        """Lets go of an observer that waits no longer; it may still be notified."""
        # Thousands of requests may time out together: the heap is built again when half of it is forgotten.
        self._forgotten.add(observer)
        if 2 * len(self._forgotten) > len(self._commit_observers):
            self._commit_observers = [each for each in self._commit_observers if each[2] not in self._forgotten]
            heapify(self._commit_observers)
            self._forgotten.clear()

    def fail_commits(self, code: ErrorCode) -> None:
        """Notifies all commit observers that their records will not be committed."""
        waiting, self._commit_observers = self._commit_observers, []
        for _, _, observer in waiting:
            observer.failed(code)

    @property
    def lacks_in_sync_replicas(self) -> bool:
        """Whether fewer replicas are in sync than `min.insync.replicas` requires."""
        return self._in_sync_replicas < self._min_in_sync_replicas

    def check_in_sync_replicas(self, records: memoryview | bytes = b"") -> None:
        """Refuses a write with acks=all if too few replicas are in sync (I4). `records` is the batch of a client.

        Raises NOT_ENOUGH_REPLICAS, or NOT_LEADER_OR_FOLLOWER after `resign` and after `refuse_writes`.
        """
        if not self.accepts_writes:
            self.check_accepts_writes()
        if self._in_sync_replicas < self._min_in_sync_replicas:
            self.log.appender.note_refused(records)
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR : {self._in_sync_replicas} is insufficient to satisfy the min.isr "
                f"requirement of {self._min_in_sync_replicas} for partition {self}",
            )

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Refuses a client whose leader epoch is older or newer than the partition's (KIP-320); -1 skips the check.

        Raises FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH, or NOT_LEADER_OR_FOLLOWER after `resign`.
        """
        if not self.leads:
            self.check_leads()
        if current_leader_epoch not in (-1, self.leader_epoch):
            raise wrong_leader_epoch(str(self), current_leader_epoch, self.leader_epoch)

    def observe(self, observer: AppendObserver) -> None:
        """Notifies `observer` of records that become visible, until `release`."""
        self._observers[observer] = None

    def observe_end(self, observer: AppendObserver) -> None:
        """Notifies `observer` of records that are appended, committed or not, and of `observe`, until `release`."""
        self._end_observers[observer] = None
        self._observers[observer] = None

    @property
    def observer_count(self) -> int:
        """Number of observers that wait for the partition to grow."""
        return len(self._observers)

    def release(self, observer: AppendObserver) -> None:
        """Stops notifying `observer`."""
        self._observers.pop(observer, None)
        self._end_observers.pop(observer, None)

    def on_high_watermark(self, listener: Callable[[Offset], None]) -> None:
        """Calls `listener` with every new high watermark."""
        self._high_watermark_listeners.append(listener)

    def off_high_watermark(self, listener: Callable[[Offset], None]) -> None:
        """Stops calling `listener`."""
        self._high_watermark_listeners.remove(listener)

    def interrupt_observers(self) -> None:
        """Ends the wait of all append observers, so that they read again."""
        for observer in tuple(self._observers):
            observer.interrupted()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
