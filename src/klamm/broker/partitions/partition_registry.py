"""The partitions that this broker leads. The registry follows the metadata image, and creates and deletes logs."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from klamm.broker.partitions.partition import Partition
from klamm.broker.time_slices import STEP_S, finish_in_steps
from klamm.metadata.topic_name import shortened
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, TopicId, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.partitions.fsync_batcher import FsyncBatcher
    from klamm.config.topic_config import TopicConfig
    from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
    from klamm.storage.log import Log
    from klamm.storage.log_directory import LogDirectory

__all__ = ["LedTopic", "PartitionRegistry"]

_logger = logging.getLogger(__name__)


class LedTopic:
    """The partitions of one topic, by index; None for a partition that this broker does not lead."""

    __slots__ = ("failures", "is_dropped", "is_internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId, is_internal: bool) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.is_dropped = False
        """Whether the topic was deleted; later steps delete its logs."""
        self.partitions: list[Partition | None] = []
        self.failures: dict[int, str] = {}
        """By index, why a partition that this broker should lead has no log: a full disk, for example."""

    def get(self, index: int) -> Partition:
        """Returns the partition of that index.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or KAFKA_STORAGE_ERROR if its log could
        not be created.
        """
        if not 0 <= index < len(self.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} has no partition {index}")
        partition = self.partitions[index]
        if partition is None:
            if index in self.failures:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.failures[index])
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.name}-{index}")
        return partition


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
        self.commit_later = fsync_batcher is not None
        """Whether appended records are committed only after a sync."""
        self._node_id = node_id
        self._log_directory = log_directory
        self._topic_config_of = topic_config_of
        self.by_name: dict[str, LedTopic] = {}
        self.by_id: dict[TopicId, LedTopic] = {}
        self._leadership_observers: list[Callable[[Partition, bool], None]] = []
        self._topics: Mapping[str, TopicImage] = {}
        self._work: deque[Iterator[bool]] = deque()
        self._dropping: set[str] = set()
        """Deleted topics whose logs still exist."""
        self._is_working = False
        self._settled: asyncio.Future[None] | None = None

    def on_leadership(self, observer: Callable[[Partition, bool], None]) -> None:
        """Calls `observer(partition, True)` when this broker begins to lead a partition, with False when it stops."""
        self._leadership_observers.append(observer)

    def get(self, topic: str, index: int) -> Partition:
        """Returns the partition, ready for reads and writes.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR.
        """
        led = self.by_name.get(topic)
        if led is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {shortened(topic)!r}")
        return led.get(index)

    def get_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """Returns the partition by topic id, ready for reads and writes.

        Raises KafkaError UNKNOWN_TOPIC_ID, or the errors of `LedTopic.get`.
        """
        led = self.by_id.get(topic_id)
        if led is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of that id")
        return led.get(index)

    def apply(self, old: MetadataImage | None, new: MetadataImage) -> None:
        """Follows the new image: creates, reconfigures and deletes logs.

        Cheap if nothing changed. Files of many partitions take time, so a running broker (`old` is not None) works in
        steps, in the order of the images. It does not lead a new partition before the step of that partition.
        `settled` waits for the last step.
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
        else:
            self._work_if_idle()

    async def free_names(self, topics: Collection[str]) -> None:
        """Waits until the disk holds no traces of deleted topics that had these names.

        Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        if self._dropping and not self._dropping.isdisjoint(topics):
            await self.settled()
        forgotten = await finish_in_steps(self._log_directory.forget_in_steps(topics))
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
        for steps in self._work:
            for _ in steps:
                pass
        self._work.clear()
        self._tell_settled()

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
        """Retries in steps to create the logs that could not be created."""
        self._work += [self._lead(image.topics[name]) for name, led in self.by_name.items() if led.failures]
        self._work_if_idle()

    def reconfigure(self) -> None:
        """Updates the configuration of every log in steps, after a change of the broker's defaults."""
        self._work.append(self._reconfigure(list(self.by_name.values())))
        self._work_if_idle()

    def _reconfigure(self, all_led: Collection[LedTopic]) -> Iterator[bool]:
        for led in all_led:
            image = self._topics.get(led.name)
            if image is None or led.is_dropped:
                continue
            config = self._topic_config_of(image)
            for partition in led.partitions:
                if partition is not None:
                    partition.log.update_config(config)
                yield True

    def _lead(self, topic: TopicImage) -> Iterator[bool]:
        """Begins to lead the partitions of a topic that this broker should lead. Yields after each new partition."""
        if self._topics.get(topic.name) is not topic:
            return  # A later image has deleted or changed the topic.
        led = self.by_name.get(topic.name)
        if led is None:
            led = LedTopic(topic.name, topic.topic_id, topic.is_internal)
            self.by_name[topic.name] = led
            self.by_id[topic.topic_id] = led
        config = self._topic_config_of(topic)
        # Keep a placeholder, so that clients retry a partition that is still loading instead of treating it as unknown.
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
                    partition.lead(image.leader_epoch)
                    partition.interrupt_observers()
                continue
            try:
                log = self._open_log(topic, image, config)
            except (KafkaError, OSError) as error:
                led.failures[image.index] = f"{topic.name}-{image.index} has no log: {error}"
                _logger.error("%s", led.failures[image.index])
                continue
            led.failures.pop(image.index, None)
            partition = Partition(topic.name, image, log, self._fsync_batcher)
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
        """Notifies all observers of a partition that its log is offline.

        The partition stays, and refuses requests with KAFKA_STORAGE_ERROR.
        """
        led = self.by_name.get(topic_partition.topic)
        partition = led.partitions[topic_partition.partition] if led is not None else None
        if partition is None or not partition.log.is_offline:
            return
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
        self._work.append(self._delete_logs(led))

    def _delete_logs(self, led: LedTopic) -> Iterator[bool]:
        for partition in led.partitions:
            if partition is None:
                continue
            for observer in self._leadership_observers:
                observer(partition, False)
            partition.fail_commits(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._log_directory.delete(TopicPartition(led.name, partition.index))
            partition.interrupt_observers()
            yield True
        self._dropping.discard(led.name)
