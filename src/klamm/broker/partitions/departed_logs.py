"""The logs of partitions that have moved away: this broker is no replica any more, so it deletes them.

First the checkpoints forget the partition, on the disk. Then the folder is renamed to `….-delete`, and its files are
removed after `file.delete.delay.ms`. In the other order, a crash in between and a partition that comes back would look
like a lost folder. A partition that comes back before the rename keeps its log; later it gets an empty one, and copies
the leader's.

Source: `ReplicaManager.stopPartitions` and `LogManager.asyncDelete` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future

    from klamm.metadata.image import PartitionImage
    from klamm.protocol.types import TopicPartition
    from klamm.storage.log import Log
    from klamm.storage.log_directory import LogDirectory

__all__ = ["DepartedLogs"]

_logger = logging.getLogger(__name__)


class DepartedLogs:
    """The logs of one data directory whose partitions have no replica on this broker. No request uses them."""

    def __init__(self, log_directory: LogDirectory) -> None:
        self._log_directory = log_directory
        self._logs: dict[TopicPartition, Log] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def add(self, log: Log, image: PartitionImage) -> None:
        """Adds a log that is to be deleted, because the metadata name other brokers as replicas."""
        if self._logs.get(log.topic_partition) is not log:
            self._logs[log.topic_partition] = log
            _logger.info("%s has moved to brokers %s: its log is deleted here", log, list(image.replicas))

    def keep(self, topic_partition: TopicPartition) -> None:
        """Forgets that a log was to be deleted: this broker is a replica again, or the topic is deleted."""
        if self._logs.pop(topic_partition, None) is not None:
            self._log_directory.keep(topic_partition)

    def forget_in_steps(self) -> Generator[None, None, tuple[Collection[Log], Future[None]]]:
        """Takes all these logs out of the checkpoints, some per step. Returns them and a future that is done when the
        checkpoints are on the disk; it may raise OSError. `delete_in_steps` must follow then."""
        logs = list(self._logs.values())
        return logs, (yield from self._log_directory.leave_out_in_steps([log.topic_partition for log in logs]))

    def delete_in_steps(self, logs: Collection[Log]) -> Iterator[None]:
        """Deletes the logs whose partitions have not come back, one per step."""
        for log in logs:
            if self._logs.get(log.topic_partition) is log:
                self.keep(log.topic_partition)
                if self._log_directory.get(log.topic_partition) is log:
                    self._log_directory.delete(log.topic_partition)
                yield
