"""The three offset checkpoints of a data directory: recovery points, log start offsets, high watermarks."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from klamm.protocol.types import Offset, TopicPartition
from klamm.storage.atomic_file import write_atomically
from klamm.storage.checkpoints import (
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
    MalformedCheckpoint,
    encode_offsets,
    read_offsets,
)
from klamm.storage.log.log import Log
from klamm.storage.log.log_services import LogOffsets

__all__ = ["CheckpointContents", "NotedOffsets", "OffsetCheckpoints"]

_logger = logging.getLogger(__name__)

_Files: TypeAlias = Mapping[str, Mapping[TopicPartition, Offset]]

_FILES: Final = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, REPLICATION_OFFSET_FILE)
_LOGS_AT_ONCE: Final = 500
"""Number of logs per step; a step takes less than a millisecond."""


class CheckpointContents(NamedTuple):
    """The content for each of the files. A higher number means that gathering began later."""

    number: int
    files: _Files


class NotedOffsets(NamedTuple):
    """The content of the files. A partition without an entry has 0."""

    recovery_points: dict[TopicPartition, Offset]
    log_start_offsets: dict[TopicPartition, Offset]
    """A partition without an entry may begin anywhere: Kafka stores only offsets that the files don't show."""
    high_watermarks: dict[TopicPartition, Offset]
    has_page_cache: bool = False
    """Whether the page cache of the run that wrote them still exists."""

    def proven_end(self, topic_partition: TopicPartition) -> Offset:
        """Returns the offset up to which a partition had records in its folder, as far as the files prove it.

        There are two proofs: the recovery point, and the high watermark if the page cache still exists. After a power
        failure a high watermark is no proof: the folder itself may never have reached the disk.
        """
        end = self.recovery_points.get(topic_partition, Offset(0))
        return max(end, self.high_watermarks.get(topic_partition, Offset(0))) if self.has_page_cache else end


class OffsetCheckpoints:
    """Gathers the offsets on the thread of the event loop, and writes them on any thread."""

    __slots__ = (
        "_being_gathered",
        "_directory",
        "_gathered",
        "_last",
        "_lock",
        "_written",
        "_written_number",
        "announced",
        "left_out",
    )

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()
        self._gathered = 0
        self._written: dict[str, bytes] = {}
        self._written_number = 0
        self._last: _Files = {}
        self._being_gathered: _Files = {}
        self.announced: dict[Log, LogOffsets] = {}
        """Logs that are about to be truncated, and the offsets that they will have. The files name these."""
        self.left_out: set[TopicPartition] = set()
        """Partitions with logs that are about to be deleted. The files don't name them."""

    def read(self, *, has_page_cache: bool = False) -> NotedOffsets:
        """Returns the offsets that an earlier run wrote. Raises OSError."""
        files = {name: self._read(name) for name in _FILES}
        self._last = files
        recovery_points, log_start_offsets, high_watermarks = files.values()
        return NotedOffsets(recovery_points, log_start_offsets, high_watermarks, has_page_cache)

    def _read(self, name: str) -> dict[TopicPartition, Offset]:
        try:
            return read_offsets(self._directory / name)
        except MalformedCheckpoint as error:
            # Without the checkpoint, recovery reads more of the log, with the same result.
            _logger.warning("%s; it is treated as empty", error)
            return {}

    def may_name(self, topic_partition: TopicPartition) -> bool:
        """Returns whether the files may hold an offset of this partition that the next start would use."""
        return any(
            offsets.get(topic_partition, 0) > 0
            for files in (self._last, self._being_gathered)
            for offsets in files.values()
        )

    def gather(self, logs: Mapping[TopicPartition, Log]) -> CheckpointContents:
        """Returns the content that the files should have now. Another gathering that is in progress is discarded."""
        steps = self.gather_in_steps(logs)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                contents: CheckpointContents = end.value
                return contents

    def gather_in_steps(self, logs: Mapping[TopicPartition, Log]) -> Generator[None, None, CheckpointContents | None]:
        """Gathers the same content, some logs per step. Logs may come, go, grow and be truncated between two steps.

        Returns None if another gathering has begun meanwhile: only the newer one knows which log is about to be
        truncated, and which name now belongs to another topic.
        """
        self._gathered += 1
        number = self._gathered
        files: dict[str, dict[TopicPartition, Offset]] = {name: {} for name in _FILES}
        recovery_points, starts, high_watermarks = files.values()
        self._being_gathered = files
        all_logs = list(logs.items())
        for first in range(0, len(all_logs), _LOGS_AT_ONCE):
            for topic_partition, log in all_logs[first : first + _LOGS_AT_ONCE]:
                if logs.get(topic_partition) is not log or topic_partition in self.left_out:
                    continue
                announced = self.announced.get(log)
                if announced is not None:
                    recovery_points[topic_partition] = announced.recovery_point
                    high_watermarks[topic_partition] = announced.high_watermark
                    starts[topic_partition] = announced.log_start_offset
                    continue
                recovery_points[topic_partition] = log.recovery_point
                high_watermarks[topic_partition] = log.high_watermark
                start = log.log_start_offset_to_checkpoint
                if start is not None:
                    starts[topic_partition] = start
            yield
            if number != self._gathered:
                return None
        self._last = files
        return CheckpointContents(number, files)

    def write(self, contents: CheckpointContents) -> None:
        """Writes and syncs the files whose content changes. Ignores contents that are older than those on the disk.

        Raises OSError.
        """
        with self._lock:
            if contents.number < self._written_number:
                return
            for name, offsets in contents.files.items():
                # With many partitions the encoding is slow, too, so it also happens here, on the writing thread.
                content = encode_offsets(offsets)
                if self._written.get(name) != content:
                    write_atomically(self._directory / name, content)
                    self._written[name] = content
            self._written_number = contents.number
