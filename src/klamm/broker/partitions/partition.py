"""One partition that this broker leads: who may write and read, and who waits for what is written.

One node has no followers: what is appended is replicated at once, so the high watermark follows the log end offset;
with `klamm.fsync=ack` it follows what is on the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from klamm.core.log.batch_opening import open_now
from klamm.core.log.transaction_verification import NO_GUARD
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch, Millis, Offset

if TYPE_CHECKING:
    from klamm.broker.partitions.fsync_batcher import FsyncBatcher
    from klamm.broker.partitions.warm_reads import WarmRead
    from klamm.core.log.batch_opening import BatchOpening
    from klamm.metadata.image import PartitionImage
    from klamm.storage.log import Log
    from klamm.storage.log_appender import AppendInfo

__all__ = ["AppendObserver", "CommitObserver", "Partition"]

_places: Final = count()


class AppendObserver(Protocol):
    """Somebody who waits for a partition to grow, or to change so that waiting is pointless."""

    def appended(self, size_bytes: int) -> None:
        """Records became visible to consumers."""

    def interrupted(self) -> None:
        """The partition is led no longer, or its log was cut: ask again."""


class CommitObserver(Protocol):
    """Somebody who waits until what he wrote is committed."""

    def committed(self) -> None:
        """It is."""

    def failed(self, code: ErrorCode) -> None:
        """It won't be, as far as this broker can tell."""


class Partition:
    """One partition that this broker leads."""

    __slots__ = (
        "_commit_observers",
        "_fsync_batcher",
        "_high_watermark_listeners",
        "_observers",
        "_unsynced",
        "epoch_start_offset",
        "image",
        "index",
        "leader_epoch",
        "log",
        "topic",
        "warm_read",
    )

    def __init__(self, topic: str, image: PartitionImage, log: Log, fsync_batcher: FsyncBatcher | None = None) -> None:
        """With a `fsync_batcher`, what is appended is committed when it was synced, else at once."""
        self.topic = topic
        self.index = image.index
        self.log = log
        self.image = image
        self.leader_epoch = image.leader_epoch
        self.epoch_start_offset = log.log_end_offset
        """Where the log ended when this broker began to lead it under this epoch. A high watermark below it may be
        lower than what clients were told before."""
        self.warm_read: WarmRead | None = None
        """What was made ready for a consumer that will read here next."""
        self._observers: set[AppendObserver] = set()
        self._high_watermark_listeners: list[Callable[[Offset], None]] = []
        self._fsync_batcher = fsync_batcher
        self._unsynced: deque[tuple[Offset, int]] = deque()
        """Where batches end that are not committed yet, and their sizes."""
        self._commit_observers: list[tuple[Offset, int, CommitObserver]] = []
        """A heap: from which high watermark on each has what it waits for."""

    def lead(self, leader_epoch: LeaderEpoch) -> None:
        """Goes on under another leader epoch."""
        self.leader_epoch = leader_epoch
        self.log.assign_leader_epoch(leader_epoch)
        self.epoch_start_offset = self.log.log_end_offset

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
        """Appends as leader, and wakes whoever waits for it when it is committed, which may be now or later.

        See `LogAppender.append_as_leader`. Raises KafkaError with the code for the answer.
        """
        log = self.log
        info = log.appender.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            from_client=from_client,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
            open_batch=open_batch,
        )
        if self._fsync_batcher is None:
            log.advance_high_watermark(log.log_end_offset)
            if self._observers or self._high_watermark_listeners or self._commit_observers:
                self._tell_committed(len(records))
        elif not info.is_duplicate:
            self._unsynced.append((log.log_end_offset, len(records)))
            self._fsync_batcher.request(log, self._synced)
        return info

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

    def _synced(self) -> None:
        """A sync has ended: what is on the disk is committed."""
        log = self.log
        before = log.high_watermark
        log.advance_high_watermark(log.recovery_point)
        if log.high_watermark == before:
            return
        size_bytes = 0
        while self._unsynced and self._unsynced[0][0] <= log.high_watermark:
            size_bytes += self._unsynced.popleft()[1]
        self._tell_committed(size_bytes)

    def commit_found(self) -> None:
        """Commits what the log held when it was opened; with `klamm.fsync=ack` after it was synced."""
        log = self.log
        if log.is_offline:
            return
        if self._fsync_batcher is None or log.recovery_point == log.log_end_offset:
            log.advance_high_watermark(log.log_end_offset)
        else:
            log.advance_high_watermark(log.recovery_point)
            self._fsync_batcher.request_tail(log, self._synced)

    def when_committed(self, last_offset: Offset, observer: CommitObserver) -> None:
        """Tells `observer` once when `last_offset`, which is not committed yet, is, or when it won't be."""
        heappush(self._commit_observers, (Offset(last_offset + 1), next(_places), observer))

    def forget_commit(self, is_meant: Callable[[CommitObserver], bool]) -> None:
        """Tells those no more that are meant."""
        self._commit_observers = [waiting for waiting in self._commit_observers if not is_meant(waiting[2])]
        heapify(self._commit_observers)

    def fail_commits(self, code: ErrorCode) -> None:
        """Tells everybody who waits for a commit that there will be none."""
        waiting, self._commit_observers = self._commit_observers, []
        for _, _, observer in waiting:
            observer.failed(code)

    def check_in_sync_replicas(self) -> None:
        """Refuses a write with acks=all that too few replicas would hold (I4).

        As in Kafka, `min.insync.replicas` asks for no more replicas than the partition has. Raises NOT_ENOUGH_REPLICAS.
        """
        in_sync = len(self.image.isr)
        needed = min(self.log.config.min_insync_replicas, len(self.image.replicas))
        if in_sync < needed:
            raise KafkaError(
                ErrorCode.not_enough_replicas,
                f"The size of the current ISR : {in_sync} is insufficient to satisfy the min.isr requirement of "
                f"{needed} for partition {self}",
            )

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Refuses a client whose idea of the leader is older or newer than ours (KIP-320); -1 asks for no check."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(
                ErrorCode.fenced_leader_epoch,
                f"{self}: leader epoch {current_leader_epoch} is over, it is {self.leader_epoch}",
            )
        raise KafkaError(
            ErrorCode.unknown_leader_epoch,
            f"{self}: leader epoch {current_leader_epoch} is not known yet, it is {self.leader_epoch}",
        )

    def observe(self, observer: AppendObserver) -> None:
        """Tells `observer` of every append until it is released."""
        self._observers.add(observer)

    @property
    def observer_count(self) -> int:
        """How many wait for the partition to grow."""
        return len(self._observers)

    def release(self, observer: AppendObserver) -> None:
        """Stops telling `observer`."""
        self._observers.discard(observer)

    def on_high_watermark(self, listener: Callable[[Offset], None]) -> None:
        """Tells `listener` of every rise of the high watermark."""
        self._high_watermark_listeners.append(listener)

    def off_high_watermark(self, listener: Callable[[Offset], None]) -> None:
        """Stops telling `listener`."""
        self._high_watermark_listeners.remove(listener)

    def interrupt_observers(self) -> None:
        """Sends everybody who waits back to look again."""
        for observer in tuple(self._observers):
            observer.interrupted()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
