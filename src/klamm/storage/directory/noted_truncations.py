"""Writes the offsets of logs to the checkpoints before the logs are truncated.

The checkpoints on the disk must not name offsets above the end of a truncated log. Otherwise, after a crash, synced
records would seem to be lost, or a start would trust unsynced records that were appended after the truncation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klamm.protocol.types import TopicPartition
    from klamm.storage.cleaner.checkpoint import CleanerCheckpoint
    from klamm.storage.cleaner.log_cleaner import LogCleaner
    from klamm.storage.directory.noted_names import NotedNames
    from klamm.storage.directory.offset_checkpoints import CheckpointContents, OffsetCheckpoints
    from klamm.storage.log.log import Log
    from klamm.storage.log.log_services import LogOffsets

__all__ = ["NotedTruncations"]


class NotedTruncations:
    """The truncations of one data directory, and the offsets of the truncated logs in the checkpoints."""

    def __init__(  # noqa: PLR0917 - everything of a directory that names a truncated log
        self,
        logs: Mapping[TopicPartition, Log],
        checkpoints: OffsetCheckpoints,
        names: NotedNames,
        cleaner: LogCleaner,
        cleaner_checkpoint: CleanerCheckpoint,
        run_in_background: Callable[..., Future[Any]],
    ) -> None:
        self._logs = logs
        self._checkpoints = checkpoints
        self._names = names
        self._cleaner = cleaner
        self._cleaner_checkpoint = cleaner_checkpoint
        self._run_in_background = run_in_background
        self._on_disk: dict[Log, LogOffsets] = {}
        """The offsets that `note_in_steps` has written."""

    def note(self, topic_partition: TopicPartition, offsets: LogOffsets) -> None:
        """Writes the offsets of a log after its truncation, and returns when they are on the disk. Raises OSError.

        Writes nothing if `note_in_steps` has already written these offsets.
        """
        self._cleaner.abort(topic_partition)
        self._cleaner_checkpoint.lower(topic_partition, offsets.recovery_point)
        log = self._logs[topic_partition]
        if self._is_on_disk(log, offsets):
            return
        announced = self._checkpoints.announced
        earlier = announced.get(log)
        announced[log] = offsets
        try:
            self._names.write_durably(self._checkpoints.gather(self._logs))
        except BaseException:
            del announced[log]
            if earlier is not None:
                announced[log] = earlier
            raise
        if earlier is None:
            del announced[log]

    def _is_on_disk(self, log: Log, offsets: LogOffsets) -> bool:
        noted = self._on_disk.get(log)
        return (
            noted is not None
            and noted.recovery_point <= offsets.recovery_point
            and noted.log_start_offset == offsets.log_start_offset
            and noted.high_watermark <= offsets.high_watermark
        )

    def note_in_steps(self, truncations: Mapping[Log, LogOffsets]) -> Generator[None, None, Future[None]]:
        """Writes what several truncations will leave, with one write of each file on the background thread.

        The future is done when it is on the disk; it may raise OSError. The checkpoints keep these offsets until
        `forget`, which must follow once the logs are truncated, or are not to be truncated any more.
        """
        self._checkpoints.announced.update(truncations)
        for log in truncations:
            self._cleaner.abort(log.topic_partition)
        contents = None
        while contents is None:
            contents = yield from self._checkpoints.gather_in_steps(self._logs)
        return self._run_in_background(self._write, dict(truncations), contents)

    def _write(self, truncations: dict[Log, LogOffsets], contents: CheckpointContents) -> None:
        for log, offsets in truncations.items():
            self._cleaner_checkpoint.lower(log.topic_partition, offsets.recovery_point)
        self._names.write_durably(contents)
        self._on_disk.update(truncations)

    def forget(self, logs: Collection[Log]) -> None:
        """Lets the checkpoints name the logs' own offsets again."""
        for log in logs:
            self._checkpoints.announced.pop(log, None)
            self._on_disk.pop(log, None)
