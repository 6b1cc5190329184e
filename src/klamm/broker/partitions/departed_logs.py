"""The logs of partitions that have moved away: this broker is no replica any more, so it deletes them.

First the checkpoints forget the partition, on the disk. Then the folder is renamed to `….-delete`, and its files are
removed after `file.delete.delay.ms`. In the other order, a crash in between and a partition that comes back would look
like a lost folder. A partition that comes back before the rename keeps its log; later it gets an empty one, and copies
the leader's.

Source: `ReplicaManager.stopPartitions` and `LogManager.asyncDelete` of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.metadata.image import PartitionImage
    from klamm.protocol.types import TopicPartition
    from klamm.storage.directory.log_directory import LogDirectory
    from klamm.storage.log.log import Log

__all__ = ["DepartedLogs"]

_logger = logging.getLogger(__name__)


class DepartedLogs:
    """The logs of one data directory whose partitions have no replica on this broker. No request uses them."""

    def __init__(self, log_directory: LogDirectory, run: Callable[[Iterator[bool]], None]) -> None:
        """Creates the state without logs. `run` runs some steps on the event loop, soon."""
        self._log_directory = log_directory
        self._run = run
        self._logs: dict[TopicPartition, Log] = {}
        self._is_deleting = False
        self._is_stopped = False

    def add(self, log: Log, image: PartitionImage) -> None:
        """Adds a log to delete, because the metadata name other brokers as replicas."""
        if self._logs.get(log.topic_partition) is not log:
            self._logs[log.topic_partition] = log
            _logger.info("%s has moved to brokers %s: its log is deleted here", log, list(image.replicas))

    def keep(self, topic_partition: TopicPartition) -> None:
        """Keeps a log after all: this broker is a replica again, or the topic is deleted."""
        if self._logs.pop(topic_partition, None) is not None:
            self._log_directory.names.keep(topic_partition)

    def stop(self) -> None:
        """Stops deleting: the broker stops, or its image of the metadata may be outdated."""
        self._is_stopped = True

    def begin(self) -> Collection[Iterator[bool]]:
        """Returns the steps that begin to delete all these logs; none if there is nothing to delete, or if the deletion
        is in progress. A deletion that fails is begun again by a later call."""
        if not self._logs or self._is_deleting or self._is_stopped:
            return ()
        self._is_deleting = True
        return (self._forget(),)

    def _forget(self) -> Iterator[bool]:
        try:
            yield from self._begin_to_forget()
        except Exception:
            self._is_deleting = False  # A later call of `begin` begins again.
            raise

    def _begin_to_forget(self) -> Iterator[bool]:
        logs = list(self._logs.values())
        steps = self._log_directory.names.leave_out_in_steps([log.topic_partition for log in logs])
        try:
            while True:
                next(steps)
                yield True
        except StopIteration as end:
            forgotten = end.value
        asyncio.wrap_future(forgotten).add_done_callback(lambda done: self._delete_later(logs, done))

    def _delete_later(self, logs: Collection[Log], done: asyncio.Future[None]) -> None:
        self._is_deleting = False
        if self._is_stopped or done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._run(self._delete(logs))
        else:
            _logger.error("the logs of moved partitions are not deleted yet, it is tried again: %s", error)

    def _delete(self, logs: Collection[Log]) -> Iterator[bool]:
        for log in logs:
            if self._logs.get(log.topic_partition) is not log or self._is_stopped:
                continue  # The partition has come back, or its topic is deleted.
            self.keep(log.topic_partition)
            if self._log_directory.get(log.topic_partition) is log:
                self._log_directory.delete(log.topic_partition)
            yield True
        for steps in self.begin():
            yield from steps
