"""Takes the partition of a failed log offline, on the event loop, no matter which thread notices the failure.

Source: `LogDirFailureHandler` of Apache Kafka 4.3, for one log instead of a directory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.protocol.types import TopicPartition
    from klamm.storage.directory.log_directory import LogDirectory

__all__ = ["LogFailureHandler"]


class LogFailureHandler:
    """Observer of logs that go offline, from `start` to `stop`. Must be created on the running event loop."""

    def __init__(self, log_directory: LogDirectory, partitions: PartitionRegistry) -> None:
        self.give_up: Callable[[TopicPartition], None] = lambda topic_partition: None
        """Lets other replicas of a partition lead. Does nothing on a single broker."""
        self.distrust_run: Callable[[], None] = lambda: None
        """Notes elsewhere than on the disk that this run may have lost records. Does nothing on a single broker."""
        self._log_directory = log_directory
        self._partitions = partitions
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False

    def start(self) -> None:
        """Starts to observe the logs of the directory."""
        self._log_directory.on_offline(self._on_offline)

    def stop(self) -> None:
        """Takes no more partitions offline, also for failures that were noticed earlier."""
        self._is_stopped = True

    def _on_offline(self, topic_partition: TopicPartition) -> None:
        with contextlib.suppress(RuntimeError):  # The loop may be closed while a thread still runs.
            self._loop.call_soon_threadsafe(self._take_offline, topic_partition)

    def _take_offline(self, topic_partition: TopicPartition) -> None:
        if not self._is_stopped:
            self._partitions.take_offline(topic_partition)
            if self._log_directory.owner.run.is_stuck:
                self.distrust_run()
            self.give_up(topic_partition)
