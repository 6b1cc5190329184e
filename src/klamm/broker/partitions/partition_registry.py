"""The partitions of this broker. The registry follows the metadata image: it leads, follows, creates and deletes logs.

This broker resigns from a partition in the same moment in which it learns that another broker leads it, or that it has
no leader. From then on each request gets NOT_LEADER_OR_FOLLOWER, also through a `Partition` that a handler still holds.
The partitions of internal topics tell their observers at once, so that no coordinator answers any more. Other topics
may have many thousands of partitions: their waiting requests are answered in steps, before all other steps.

`unled_logs.py` has the logs of partitions that are led elsewhere. A log is deleted with its topic, or when this broker
is no replica any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from klamm.broker.partitions.followers import Followers, give_up_without_log
from klamm.broker.partitions.led_topic import LedTopic
from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.role import Role
from klamm.broker.partitions.unled_logs import UnledLogs
from klamm.broker.time_slices import STEP_S, finish_in_steps
from klamm.metadata.topic_name import shortened
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, TopicId, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.partitions.followers import ReplicationPort
    from klamm.broker.partitions.fsync_batcher import FsyncBatcher
    from klamm.config.topic_config import TopicConfig
    from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
    from klamm.storage.directory.log_directory import LogDirectory
    from klamm.storage.log.log import Log

__all__ = ["PartitionRegistry"]

_logger = logging.getLogger(__name__)


class PartitionRegistry:
    """All partitions that this broker leads; follows the metadata image."""

    def __init__(
        self,
        node_id: BrokerId,
        log_directory: LogDirectory,
        topic_config_of: Callable[[TopicImage], TopicConfig],
        fsync_batcher: FsyncBatcher | None = None,
    ) -> None:
        """Creates an empty registry. With a `fsync_batcher`, records are committed after a sync (`klamm.fsync=ack`)."""
        self._fsync_batcher = fsync_batcher
        self._replication: ReplicationPort | None = None
        self._may_commit: Callable[[], bool] | None = None
        self.commit_later = fsync_batcher is not None
        """Whether appended records may be committed later: after a sync, or when followers hold them."""
        self._node_id = node_id
        self._log_directory = log_directory
        self._topic_config_of = topic_config_of
        self.by_name: dict[str, LedTopic] = {}
        self.by_id: dict[TopicId, LedTopic] = {}
        self.unled = UnledLogs(node_id, log_directory, self._run)
        self._leadership_observers: list[Callable[[Partition, bool], None]] = []
        self._topics: Mapping[str, TopicImage] = {}
        self._work: deque[Iterator[bool]] = deque()
        self._dropping: set[str] = set()
        """Deleted topics whose logs still exist."""
        self._refuses_writes = False
        """Whether the session with the metadata store has ended: this broker begins to lead nothing."""
        self._is_working = False
        self._settled: asyncio.Future[None] | None = None

    def replicate(self, port: ReplicationPort, may_commit: Callable[[], bool]) -> None:
        """Lets partitions have followers, and commit only while `may_commit` returns True. Must be called before the
        first `apply`."""
        self._replication = port
        self._may_commit = may_commit
        self.commit_later = True

    def on_leadership(self, observer: Callable[[Partition, bool], None]) -> None:
        """Calls `observer(partition, True)` when this broker begins to lead a partition, or leads it under a new leader
        epoch, and with False when it stops."""
        self._leadership_observers.append(observer)

    def get(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """Returns the partition, ready for reads and writes.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, or the errors of `LedTopic.get`.
        """
        led = self.by_name.get(topic)
        if led is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {shortened(topic)!r}")
        return led.get(index, current_leader_epoch)

    def role(self, topic: str, index: int) -> Role | None:
        """Returns the role of this broker in a partition; None if there is no such partition."""
        led = self.by_name.get(topic)
        return None if led is None or not 0 <= index < len(led.partitions) else led.role(index)

    def get_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """Returns the partition by topic id, ready for reads and writes.

        Raises KafkaError UNKNOWN_TOPIC_ID, or the errors of `LedTopic.get`.
        """
        led = self.by_id.get(topic_id)
        if led is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of that id")
        return led.get(index)

    def apply(self, old: MetadataImage | None, new: MetadataImage) -> None:
        """Follows the new image: resigns, creates, reconfigures and deletes logs.

        Cheap if nothing changed. Files of many partitions take time, so a running broker (`old` is not None) works in
        steps, in the order of the images. It does not lead a new partition before the step of that partition, but it
        resigns at once. `settled` waits for the last step.
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
            self._follow(topic)
            self._work.append(self._lead(topic))
        if old is None:
            self.finish()
        else:
            self._work_if_idle()

    def _follow(self, topic: TopicImage) -> None:
        """Takes over the image of a topic, and resigns from the partitions that this broker does not lead any more."""
        led = self.by_name.get(topic.name)
        if led is None:
            led = LedTopic(topic, self._node_id)
            self.by_name[topic.name] = led
            self.by_id[topic.topic_id] = led
            return
        self.unled.stop_outdated(led.image, topic)
        resigned = led.follow(topic)
        if not resigned:
            return
        steps = self._tell_resigned(led, resigned)
        if led.is_internal:
            for _ in steps:
                pass
        else:
            self._work.appendleft(steps)

    def _tell_resigned(self, led: LedTopic, resigned: Collection[Partition]) -> Iterator[bool]:
        for partition in resigned:
            partition.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition.interrupt_observers()
            for observer in self._leadership_observers:
                observer(partition, False)
            image = led.image.partitions[partition.index]
            _logger.info("%s is led by broker %d in leader epoch %d", partition, image.leader, image.leader_epoch)
            yield True

    def refuse_writes(self) -> None:
        """Acknowledges nothing more: the session with the metadata store has ended, so another broker may lead these
        partitions. Reads continue.

        Coordinators hear that this broker does not lead their partitions any more.
        """
        self._refuses_writes = True
        self.unled.departed.stop()  # The image may be outdated from now on.
        for led in self.by_name.values():
            for partition in led.partitions:
                if partition is not None:
                    partition.refuse_writes()
                    if led.is_internal:
                        for observer in self._leadership_observers:
                            observer(partition, False)
        self._work.appendleft(self._fail_commits(list(self.by_name.values())))
        self._work_if_idle()

    def _fail_commits(self, all_led: Collection[LedTopic]) -> Iterator[bool]:
        """Answers the waiting writes. The next leader may have their records, or not."""
        for led in all_led:
            for partition in led.partitions:
                if partition is not None:
                    partition.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            yield True

    async def free_names(self, topics: Collection[str]) -> None:
        """Waits until the disk holds no traces of deleted topics that had these names.

        Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        if self._dropping and not self._dropping.isdisjoint(topics):
            await self.settled()
        forgotten = await finish_in_steps(self._log_directory.names.forget_in_steps(topics))
        if forgotten is not None:
            await asyncio.wrap_future(forgotten)

    async def settled(self) -> None:
        """Waits until all pending steps are done."""
        while self._work:
            done = self._settled
            if done is None:
                done = self._settled = asyncio.get_running_loop().create_future()
            await asyncio.shield(done)

    def finish(self) -> None:
        """Runs all pending steps at once."""
        while self._work:
            for _ in self._work.popleft():
                pass
        self._tell_settled()

    def _run(self, steps: Iterator[bool]) -> None:
        self._work.append(steps)
        self._work_if_idle()

    def _work_if_idle(self) -> None:
        if self._work and not self._is_working:
            self._work_on()

    def _work_on(self) -> None:
        """Runs pending steps for some milliseconds, then returns to the event loop and schedules the rest."""
        deadline = monotonic() + STEP_S
        while self._work:
            try:
                is_done = next(self._work[0], None) is None
            except Exception:
                _logger.exception("partitions could not follow the metadata")
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
        """Retries in steps to create the logs that could not be created, and to delete those that could not be."""
        self._work += [self._lead(image.topics[name]) for name, led in self.by_name.items() if led.failures]
        self._work += self.unled.departed.begin()
        self._work_if_idle()

    def reconfigure(self) -> None:
        """Updates the configuration of every log in steps, after a change of the broker's defaults."""
        self._run(self._reconfigure(list(self.by_name.values())))

    def _reconfigure(self, all_led: Collection[LedTopic]) -> Iterator[bool]:
        for led in all_led:
            image = self._topics.get(led.name)
            if image is None or led.is_dropped:
                continue
            config = self._topic_config_of(image)
            for index, partition in enumerate(led.partitions):
                if partition is not None:
                    partition.follow(partition.image, config)
                elif led.image.partitions[index].leader != self._node_id:
                    self.unled.follow(led, led.image.partitions[index], config)
                yield True

    def _lead(self, topic: TopicImage) -> Iterator[bool]:
        """Begins to lead those partitions of a topic that this broker should lead. Yields after each partition."""
        led = self.by_name.get(topic.name)
        if led is None:
            return  # A later image has deleted the topic.
        config = self._topic_config_of(topic)
        for image in topic.partitions:
            if led.is_dropped or self._topics.get(topic.name) is not topic or self._refuses_writes:
                return  # A later image has deleted the topic or changed it, and has its own steps.
            partition = led.partitions[image.index]
            if image.leader != self._node_id:
                self.unled.follow(led, image, config)
                give_up_without_log(self._replication, led, image)
                yield True
                continue
            if partition is not None:
                self._follow_led(partition, image, config)
                yield True
                continue
            try:
                log = self._open_log(topic, image, config)
            except (KafkaError, OSError) as error:
                led.failures[image.index] = f"{topic.name}-{image.index} has no log: {error}"
                _logger.error("%s", led.failures[image.index])
                give_up_without_log(self._replication, led, image)
                yield True
                continue
            led.failures.pop(image.index, None)
            self.unled.take(topic, image.index)
            partition = Partition(topic.name, image, log, self._fsync_batcher)
            partition.may_commit = self._may_commit
            self._replicate(partition)
            led.partitions[image.index] = partition
            if not log.is_offline:
                partition.commit_found()
                self._tell_leads(partition)
            yield True
        self._work += self.unled.departed.begin()

    def _follow_led(self, partition: Partition, image: PartitionImage, config: TopicConfig) -> None:
        """Takes over a change of a partition that this broker continues to lead."""
        partition.follow(image, config)
        if partition.leader_epoch == image.leader_epoch:
            if (partition.followers is None) != (len(image.replicas) == 1):
                self._replicate(partition)
            partition.reconsider_high_watermark()
            return
        partition.lead(image.leader_epoch)
        self._replicate(partition)
        partition.reconsider_high_watermark()
        partition.interrupt_observers()
        if not partition.log.is_offline:
            # Another broker may have led in between.
            self._tell_leads(partition)

    def _replicate(self, partition: Partition) -> None:
        """Begins to wait for the followers of the partition, if it has any, in its present leader epoch."""
        port = self._replication
        if port is None or len(partition.image.replicas) == 1:
            partition.replicate(None)
            return
        partition.replicate(Followers(partition.image, partition.epoch_start_offset, port))

    def _tell_leads(self, partition: Partition) -> None:
        for observer in self._leadership_observers:
            observer(partition, True)

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

    def take_offline(self, topic_partition: TopicPartition) -> None:
        """Notifies all observers of a partition that its log is offline, or stops to follow its leader.

        The partition stays, and refuses requests with KAFKA_STORAGE_ERROR.
        """
        topic, index = topic_partition
        self.unled.stop_following(topic_partition)
        if not self.is_offline(topic, index):
            return
        partition = self.by_name[topic].get(index)
        partition.fail_commits(ErrorCode.KAFKA_STORAGE_ERROR)
        partition.interrupt_observers()
        for observer in self._leadership_observers:
            observer(partition, False)

    def is_offline(self, topic: str, index: int) -> bool:
        """Returns whether this broker leads the partition, but its log is offline."""
        led = self.by_name.get(topic)
        partition = led.partitions[index] if led is not None and 0 <= index < len(led.partitions) else None
        return partition is not None and partition.log.is_offline

    def _drop(self, name: str) -> None:
        led = self.by_name.pop(name, None)
        if led is None:
            return
        led.is_dropped = True
        self._dropping.add(name)
        del self.by_id[led.topic_id]
        self.unled.stop_all(led.image)
        self._work.append(self._delete_logs(led))

    def _delete_logs(self, led: LedTopic) -> Iterator[bool]:
        for index, partition in enumerate(led.partitions):
            if partition is None:
                log = self.unled.find(led, index)
                if log is not None:
                    self.unled.take(led.image, log.topic_partition.partition)
                    self._log_directory.delete(log.topic_partition)
                    yield True
                continue
            partition.resign()
            for observer in self._leadership_observers:
                observer(partition, False)
            partition.fail_commits(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._log_directory.delete(TopicPartition(led.name, partition.index))
            partition.interrupt_observers()
            yield True
        self._dropping.discard(led.name)
