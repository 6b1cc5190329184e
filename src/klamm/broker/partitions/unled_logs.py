"""The logs on this broker of partitions that it does not lead: those that it follows, and those that are left behind.

A partition whose replicas are elsewhere now leaves its log behind. No request uses this log, and `departed_logs.py`
deletes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from klamm.broker.partitions.departed_logs import DepartedLogs
from klamm.broker.partitions.followed_partition import FollowedPartition, FollowerReads
from klamm.broker.partitions.replica_logs import FollowedLog, ReplicaLogs
from klamm.broker.partitions.role import Role, role_in
from klamm.metadata.image import NO_BROKER
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, PartitionIndex, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.partitions.led_topic import LedTopic
    from klamm.config.topic_config import TopicConfig
    from klamm.metadata.image import PartitionImage, TopicImage
    from klamm.storage.directory.log_directory import LogDirectory
    from klamm.storage.log.log import Log

__all__ = ["UnledLogs"]

_logger = logging.getLogger(__name__)


class UnledLogs:
    """The logs of one data directory whose partitions this broker does not lead."""

    def __init__(self, node_id: BrokerId, log_directory: LogDirectory, run: Callable[[Iterator[bool]], None]) -> None:
        """Creates the state for a broker without partitions. `run` runs some steps on the event loop, soon."""
        self.followed = ReplicaLogs()
        self.departed = DepartedLogs(log_directory, run)
        self.reads = FollowerReads()
        self._node_id = node_id
        self._log_directory = log_directory

    def find(self, led: LedTopic, index: int) -> Log | None:
        """Returns the log that this broker has of a partition, whether it leads the partition or not."""
        log = self._log_directory.get(TopicPartition(led.name, PartitionIndex(index)))
        return log if log is not None and log.topic_id in (led.topic_id, ZERO_TOPIC_ID) else None

    def offline_logs(self) -> list[TopicPartition]:
        """Returns the partitions whose log on this broker is offline, also those that it leads or has left behind."""
        return [key for key, log in self._log_directory.logs.items() if log.is_offline]

    def find_followed(self, led: LedTopic, index: int) -> FollowedPartition | None:
        """Returns a partition of which this broker has a follower's log, for consumers; None if it has none."""
        image = led.image.partitions[index]
        log = self.find(led, index) if role_in(image, self._node_id) is Role.FOLLOWER else None
        return None if log is None else FollowedPartition(led.topic_id, image, log, self.reads)

    def take(self, topic: TopicImage, index: PartitionIndex) -> None:
        """Takes a partition out of use here: this broker leads it now, or its topic is deleted."""
        self.followed.leave((topic.topic_id, index))
        self.reads.end((topic.topic_id, index))
        self.departed.keep(TopicPartition(topic.name, index))

    def stop_following(self, topic_partition: TopicPartition) -> None:
        """Stops following one partition, whose log is offline. Does nothing if it is not followed."""
        log = self._log_directory.get(topic_partition)
        if log is not None:
            key = log.topic_id, topic_partition.partition
            self.followed.leave(key)
            self.reads.end(key)

    def stop_all(self, topic: TopicImage) -> None:
        """Stops following all partitions of a topic that is deleted. Nothing is appended to their logs from now on."""
        if self.followed or self.reads:
            for image in topic.partitions:
                key = topic.topic_id, image.index
                self.followed.leave(key)
                self.reads.end(key)

    def stop_outdated(self, old: TopicImage, topic: TopicImage) -> None:
        """Stops following the partitions that have another leader or leader epoch in the new image.

        Nothing is appended to their logs from now on; `follow` begins again. Consumers that wait at this follower read
        again, and hear of the change. If this broker leads now, they wait until it does.
        """
        if not self.followed and not self.reads:
            return
        for image in topic.partitions:
            key = topic.topic_id, image.index
            followed = self.followed.get(key)
            if followed is not None and not self._is_followed_in(image, followed):
                self.followed.leave(key)
            if key in self.reads and image.leader != self._node_id and self._is_changed(old, image):
                self.reads.end(key)

    def _is_changed(self, old: TopicImage, image: PartitionImage) -> bool:
        before = old.partitions[image.index]
        return image.leader_epoch != before.leader_epoch or role_in(image, self._node_id) is not Role.FOLLOWER

    def _is_followed_in(self, image: PartitionImage, followed: FollowedLog) -> bool:
        return (
            self._node_id in image.replicas
            and image.leader == followed.leader
            and image.leader_epoch == followed.leader_epoch
        )

    def follow(self, led: LedTopic, image: PartitionImage, config: TopicConfig) -> None:
        """Follows a partition that this broker does not lead: configures or creates its log, and tells the fetchers.

        Only a partition with several replicas is followed. The log of a follower that can't be created is a failure of
        the topic, and is tried again.
        """
        index = image.index
        log = self.find(led, index)
        if log is not None:
            log.update_config(config)
        if role_in(image, self._node_id) is Role.NOT_HERE:
            if log is not None:
                self.departed.add(log, image)
            return
        key = TopicPartition(led.name, index)
        self.departed.keep(key)
        if len(image.replicas) == 1:
            return
        # The leader has the records of a log that was gone or damaged.
        if log is None or (log.is_unread and image.leader != NO_BROKER):
            create = self._log_directory.create if log is None else self._log_directory.replace
            try:
                log = create(key, led.topic_id, config)
            except (KafkaError, OSError) as error:
                led.failures[index] = f"{led.name}-{index} has no log: {error}"
                _logger.error("%s", led.failures[index])
                return
            led.failures.pop(index, None)
        if image.leader != NO_BROKER and not log.is_offline:
            self.followed.follow(FollowedLog(led.topic_id, log, image.leader, image.leader_epoch))
