"""Keeps the names of partitions in the checkpoints of a data directory, and removes a name before its next use.

A partition with a recovery point or a high watermark in the checkpoints and without a folder counts as lost at a start.
So the checkpoints on the disk must not name a deleted topic any more when another topic gets its name, nor a replica
that has moved away when it may come back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import TopicPartition
from klamm.storage.atomic_file import sync_directory

if TYPE_CHECKING:
    from klamm.storage.directory.offset_checkpoints import CheckpointContents, OffsetCheckpoints
    from klamm.storage.log.log import Log

__all__ = ["NotedNames"]


class NotedNames:
    """The names in the checkpoints of one data directory."""

    def __init__(
        self,
        path: Path,
        logs: Mapping[TopicPartition, Log],
        checkpoints: OffsetCheckpoints,
        run_in_background: Callable[..., Future[Any]],
    ) -> None:
        self._path = path
        self._logs = logs
        self._checkpoints = checkpoints
        self._run_in_background = run_in_background
        self._deleted_topics: set[str] = set()
        """Deleted topics that the checkpoints may still contain."""

    def deleted(self, topic_partition: TopicPartition) -> None:
        """Records that a log is deleted: another log may get the name."""
        self._deleted_topics.add(topic_partition.topic)
        self._checkpoints.left_out.discard(topic_partition)

    def write_durably(self, contents: CheckpointContents) -> None:
        """Writes the checkpoints, and returns when they are on the disk. Raises OSError."""
        self._checkpoints.write(contents)
        sync_directory(self._path)

    # -- deleted topics ------------------------------------------------------------------------------------------------

    def forget_in_steps(self, topics: Collection[str]) -> Generator[None, None, Future[None] | None]:
        """Removes deleted topics with these names from the checkpoints on the disk, before new topics get the names.

        Otherwise a crash before the new folders exist would look as if the folders were lost. Returns a future to wait
        for, which may raise KafkaError KAFKA_STORAGE_ERROR; None if there is nothing to remove.
        """
        if not self._deleted_topics or self._deleted_topics.isdisjoint(topics):
            return None
        contents = None
        while contents is None:
            forgotten = self._deleted_topics.copy()
            contents = yield from self._checkpoints.gather_in_steps(self._logs)
        self._deleted_topics -= forgotten
        return self._run_in_background(self._forget, forgotten, contents)

    def _forget(self, topics: set[str], contents: CheckpointContents) -> None:
        try:
            self.write_durably(contents)
        except OSError as error:
            self._deleted_topics |= topics
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the checkpoints of {self._path} can't be written: {error}"
            ) from error

    # -- replicas that have moved away ---------------------------------------------------------------------------------

    def leave_out_in_steps(self, topic_partitions: Collection[TopicPartition]) -> Generator[None, None, Future[None]]:
        """Takes partitions out of the checkpoints before their logs are deleted, some logs per step.

        Otherwise, after a crash, a partition that comes back would seem to have lost its folder. The future is done
        when the files are on the disk; it may raise OSError. `keep` takes a partition in again.
        """
        self._checkpoints.left_out.update(topic_partitions)
        contents = None
        while contents is None:
            contents = yield from self._checkpoints.gather_in_steps(self._logs)
        return self._run_in_background(self.write_durably, contents)

    def keep(self, topic_partition: TopicPartition) -> None:
        """Lets the next checkpoint name the partition again: its log is not deleted."""
        self._checkpoints.left_out.discard(topic_partition)
