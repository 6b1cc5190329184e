"""The partitions this broker leads: who may write and read, who waits for what is written.

One node has no followers: what is appended is replicated at once, so the high watermark follows the log end offset;
with `klamm.fsync=ack` it follows what is on the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from klamm.core.log.transaction_verification import NO_GUARD
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, Offset, TopicId, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.group_sync import GroupSync
    from klamm.broker.warm_reads import WarmRead
    from klamm.config.topic import TopicConfig
    from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
    from klamm.storage.log import AppendInfo, Log
    from klamm.storage.log_directory import LogDirectory

__all__ = ["AppendObserver", "CommitObserver", "LedTopic", "Partition", "Partitions"]

logger = logging.getLogger(__name__)

NO_LEADER_EPOCH = LeaderEpoch(-1)
_places: Final = count()
STEP_S: Final = 0.004
"""For so long files are made or deleted before others have their turn."""


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
        "_group_sync",
        "_high_watermark_listeners",
        "_observers",
        "_unsynced",
        "image",
        "index",
        "leader_epoch",
        "log",
        "topic",
        "warm_read",
    )

    def __init__(self, topic: str, image: PartitionImage, log: Log, group_sync: GroupSync | None = None) -> None:
        """With a `group_sync`, what is appended is committed when it was synced, else at once."""
        self.topic = topic
        self.index = image.index
        self.log = log
        self.image = image
        self.leader_epoch = image.leader_epoch
        self.warm_read: WarmRead | None = None
        """What was made ready for a consumer that will read here next."""
        self._observers: set[AppendObserver] = set()
        self._high_watermark_listeners: list[Callable[[Offset], None]] = []
        self._group_sync = group_sync
        self._unsynced: deque[tuple[Offset, int]] = deque()
        """Where batches end that are not committed yet, and their sizes."""
        self._commit_observers: list[tuple[Offset, int, CommitObserver]] = []
        """A heap: from which high watermark on each has what it waits for."""

    def append(
        self,
        records: memoryview | bytes,
        now_ms: Millis,
        *,
        from_client: bool = True,
        verification_guard: int = NO_GUARD,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Appends as leader, and wakes whoever waits for it when it is committed, which may be now or later.

        Raises KafkaError with the code for the answer.
        """
        log = self.log
        info = log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            from_client=from_client,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )
        if self._group_sync is None:
            log.advance_high_watermark(log.log_end_offset)
            if self._observers or self._high_watermark_listeners or self._commit_observers:
                self._tell_committed(len(records))
        elif not info.is_duplicate:
            self._unsynced.append((log.log_end_offset, len(records)))
            self._group_sync.request(log, self._synced)
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
        log.advance_high_watermark(log.synced_offset)
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
        if self._group_sync is None or log.synced_offset == log.log_end_offset:
            log.advance_high_watermark(log.log_end_offset)
        else:
            log.advance_high_watermark(log.synced_offset)
            self._group_sync.request(log, self._synced)

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


class LedTopic:
    """The partitions of one topic, by index; None where this broker leads none of that index."""

    __slots__ = ("failures", "is_dropped", "is_internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId, is_internal: bool) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.is_dropped = False
        """Whether the topic was deleted; its logs go in the steps that follow."""
        self.partitions: list[Partition | None] = []
        self.failures: dict[int, str] = {}
        """Why a partition that should be led here has no log: a full disk, for example."""

    def get(self, index: int) -> Partition:
        """The partition of that index.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or KAFKA_STORAGE_ERROR where its log
        could not be made.
        """
        if not 0 <= index < len(self.partitions):
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{self.name} has no partition {index}")
        partition = self.partitions[index]
        if partition is None:
            if index in self.failures:
                raise KafkaError(ErrorCode.kafka_storage_error, self.failures[index])
            raise KafkaError(ErrorCode.not_leader_or_follower, f"this broker does not lead {self.name}-{index}")
        return partition


class Partitions:
    """Every partition that this broker leads; follows the metadata image."""

    def __init__(
        self,
        node_id: BrokerId,
        log_directory: LogDirectory,
        topic_config_of: Callable[[TopicImage], TopicConfig],
        group_sync: GroupSync | None = None,
    ) -> None:
        """With a `group_sync`, records are committed when they were synced (`klamm.fsync=ack`)."""
        self._group_sync = group_sync
        self.commit_later = group_sync is not None
        """Whether what is appended is not committed at once."""
        self._node_id = node_id
        self._log_directory = log_directory
        self._topic_config_of = topic_config_of
        self.by_name: dict[str, LedTopic] = {}
        self.by_id: dict[TopicId, LedTopic] = {}
        self._leadership_observers: list[Callable[[Partition, bool], None]] = []
        self._topics: Mapping[str, TopicImage] = {}
        self._work: deque[Iterator[bool]] = deque()
        self._is_working = False
        self._settled: asyncio.Future[None] | None = None

    def on_leadership(self, observer: Callable[[Partition, bool], None]) -> None:
        """Calls `observer(partition, True)` when this broker begins to lead a partition, with False when it ends."""
        self._leadership_observers.append(observer)

    def get(self, topic: str, index: int) -> Partition:
        """The partition, ready to be read and written.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION or NOT_LEADER_OR_FOLLOWER.
        """
        led = self.by_name.get(topic)
        if led is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no topic {topic!r}")
        return led.get(index)

    def get_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """The same by topic id.

        Raises KafkaError UNKNOWN_TOPIC_ID.
        """
        led = self.by_id.get(topic_id)
        if led is None:
            raise KafkaError(ErrorCode.unknown_topic_id, "there is no topic of that id")
        return led.get(index)

    def __iter__(self) -> Iterator[Partition]:
        for led in self.by_name.values():
            yield from (partition for partition in led.partitions if partition is not None)

    def apply(self, old: MetadataImage | None, new: MetadataImage) -> None:
        """Makes what is led here follow the new image: logs are created, set anew, or deleted.

        Cheap where nothing changed. Files of many partitions take their time: on a running broker (`old` is not None)
        it is done in steps, in the order of the images, and until a partition's turn comes it is not led; `settled`
        waits for the end.
        """
        old_topics: Mapping[str, TopicImage] = old.topics if old is not None else {}
        if old is not None and old.topics is new.topics:
            return
        self._topics = new.topics
        for name in old_topics.keys() - new.topics.keys():
            self._drop(name)
        for name, topic in new.topics.items():
            before = old_topics.get(name)
            if before is topic:
                continue
            if before is not None and before.topic_id != topic.topic_id:
                self._drop(name)
            self._work.append(self._lead(topic))
        if old is None:
            self.finish()
        elif not self._is_working:
            self._work_on()

    async def settled(self) -> None:
        """Returns when all that images asked for so far is done."""
        while self._work:
            done = self._settled
            if done is None:
                done = self._settled = asyncio.get_running_loop().create_future()
            await asyncio.shield(done)

    def finish(self) -> None:
        """Does at once what is left to do."""
        for steps in self._work:
            for _ in steps:
                pass
        self._work.clear()
        self._tell_settled()

    def _work_on(self) -> None:
        """Does some milliseconds' worth of it, and gives the event loop back in between."""
        deadline = monotonic() + STEP_S
        while self._work:
            try:
                is_done = next(self._work[0], None) is None
            except Exception:
                logger.exception("partitions could not follow the metadata")
                is_done = True
            if is_done:
                self._work.popleft()
            if monotonic() >= deadline:
                break
        self._is_working = bool(self._work)
        if self._work:
            asyncio.get_running_loop().call_soon(self._work_on)
        else:
            self._tell_settled()

    def _tell_settled(self) -> None:
        if self._settled is not None:
            self._settled.set_result(None)
            self._settled = None

    def retry_failures(self, image: MetadataImage) -> None:
        """Tries again to make the logs that could not be made."""
        for name, led in self.by_name.items():
            if led.failures:
                deque(self._lead(image.topics[name]), maxlen=0)

    def reconfigure(self, image: MetadataImage) -> None:
        """Gives every log its configuration anew, after a change of the broker's defaults."""
        for name, led in self.by_name.items():
            config = self._topic_config_of(image.topics[name])
            for partition in led.partitions:
                if partition is not None:
                    partition.log.update_config(config)

    def _lead(self, topic: TopicImage) -> Iterator[bool]:
        """Leads the topic's partitions that are to be led here; every step is a log that was made."""
        if self._topics.get(topic.name) is not topic:
            return  # A later image has deleted it, or says it anew.
        led = self.by_name.get(topic.name)
        if led is None:
            led = LedTopic(topic.name, topic.topic_id, topic.is_internal)
            self.by_name[topic.name] = led
            self.by_id[topic.topic_id] = led
        config = self._topic_config_of(topic)
        # Whoever asks for a partition whose turn has not come is to come again, not to take it for none.
        led.partitions += [None] * (len(topic.partitions) - len(led.partitions))
        for image in topic.partitions:
            if led.is_dropped:
                return
            partition = led.partitions[image.index]
            if image.leader != self._node_id:
                continue
            if partition is not None:
                partition.log.update_config(config)
                partition.image = image
                if partition.leader_epoch != image.leader_epoch:
                    partition.leader_epoch = image.leader_epoch
                    partition.log.assign_leader_epoch(image.leader_epoch)
                    partition.interrupt_observers()
                continue
            try:
                log = self._open_log(topic, image, config)
            except (KafkaError, OSError) as error:
                led.failures[image.index] = f"{topic.name}-{image.index} has no log: {error}"
                logger.error("%s", led.failures[image.index])
                continue
            led.failures.pop(image.index, None)
            partition = Partition(topic.name, image, log, self._group_sync)
            led.partitions[image.index] = partition
            if not log.is_offline:
                partition.commit_found()
                for observer in self._leadership_observers:
                    observer(partition, True)
            yield True

    def _open_log(self, topic: TopicImage, image: PartitionImage, config: TopicConfig) -> Log:
        topic_partition = TopicPartition(topic.name, image.index)
        log = self._log_directory.get(topic_partition)
        if log is None:
            log = self._log_directory.create(topic_partition, topic.topic_id, config)
        else:
            log.update_config(config)
        if not log.is_offline:
            log.assign_leader_epoch(image.leader_epoch)
        return log

    def resign(self, topic_partition: TopicPartition) -> None:
        """Tells everybody who waits for a partition that its log has gone offline.

        The partition stays, and refuses whatever is asked with KAFKA_STORAGE_ERROR.
        """
        led = self.by_name.get(topic_partition.topic)
        partition = led.partitions[topic_partition.partition] if led is not None else None
        if partition is None or not partition.log.is_offline:
            return
        partition.fail_commits(ErrorCode.kafka_storage_error)
        partition.interrupt_observers()
        for observer in self._leadership_observers:
            observer(partition, False)

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker leads the partition, but its log works no more."""
        led = self.by_name.get(topic)
        partition = led.partitions[index] if led is not None and 0 <= index < len(led.partitions) else None
        return partition is not None and partition.log.is_offline

    def _drop(self, name: str) -> None:
        led = self.by_name.pop(name, None)
        if led is None:
            return
        led.is_dropped = True
        del self.by_id[led.topic_id]
        self._work.append(self._delete_logs(led))

    def _delete_logs(self, led: LedTopic) -> Iterator[bool]:
        for partition in led.partitions:
            if partition is None:
                continue
            for observer in self._leadership_observers:
                observer(partition, False)
            partition.fail_commits(ErrorCode.unknown_topic_or_partition)
            self._log_directory.delete(TopicPartition(led.name, partition.index))
            partition.interrupt_observers()
            yield True
