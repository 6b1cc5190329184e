"""The three offset checkpoints of a data directory: recovery points, log start offsets, high watermarks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple

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
from klamm.storage.log import Log

__all__ = ["CheckpointContents", "NotedOffsets", "OffsetCheckpoints"]

logger = logging.getLogger(__name__)


class CheckpointContents(NamedTuple):
    """What is to be in each of the files; the higher the number, the later it was gathered."""

    number: int
    files: Mapping[str, Mapping[TopicPartition, Offset]]


class NotedOffsets(NamedTuple):
    """What the files say; a partition that is not there has 0."""

    recovery_points: dict[TopicPartition, Offset]
    log_start_offsets: dict[TopicPartition, Offset]
    high_watermarks: dict[TopicPartition, Offset]


class OffsetCheckpoints:
    """Gathers the offsets on the loop's thread and writes them on any."""

    __slots__ = ("_directory", "_gathered", "_lock", "_recovery_points", "_written", "_written_number")

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()
        self._gathered = 0
        self._written: dict[str, bytes] = {}
        self._written_number = 0
        self._recovery_points: dict[TopicPartition, Offset] = {}

    def read(self) -> NotedOffsets:
        """What an earlier run wrote. Raises OSError."""
        noted = NotedOffsets(
            self._read(RECOVERY_POINT_FILE), self._read(LOG_START_OFFSET_FILE), self._read(REPLICATION_OFFSET_FILE)
        )
        self._recovery_points = noted.recovery_points
        return noted

    def _read(self, name: str) -> dict[TopicPartition, Offset]:
        try:
            return read_offsets(self._directory / name)
        except MalformedCheckpoint as error:
            # Recovery reads more of the log without it, and finds the same.
            logger.warning("%s; it is taken for empty", error)
            return {}

    def has_recovery_point(self, topic_partition: TopicPartition) -> bool:
        """Whether the files may say of a partition of this name that some of its records were synced."""
        return self._recovery_points.get(topic_partition, 0) > 0

    def gather(
        self, logs: Mapping[TopicPartition, Log], lowered: Mapping[TopicPartition, Offset] | None = None
    ) -> CheckpointContents:
        """What the files are to hold now; `lowered` recovery points are those that are about to hold."""
        recovery_points = {topic_partition: log.recovery_point_to_checkpoint for topic_partition, log in logs.items()}
        if lowered:
            recovery_points.update(lowered)
        self._recovery_points = recovery_points
        starts = {
            topic_partition: offset
            for topic_partition, log in logs.items()
            if (offset := log.log_start_offset_to_checkpoint) is not None
        }
        high_watermarks = {topic_partition: log.high_watermark for topic_partition, log in logs.items()}
        self._gathered += 1
        files = {
            RECOVERY_POINT_FILE: recovery_points,
            LOG_START_OFFSET_FILE: starts,
            REPLICATION_OFFSET_FILE: high_watermarks,
        }
        return CheckpointContents(self._gathered, files)

    def write(self, contents: CheckpointContents) -> None:
        """Writes and syncs the files that change; what was gathered before what is there changes nothing.

        Raises OSError.
        """
        with self._lock:
            if contents.number < self._written_number:
                return
            for name, offsets in contents.files.items():
                # Of very many partitions that takes its time, too.
                content = encode_offsets(offsets)
                if self._written.get(name) != content:
                    write_atomically(self._directory / name, content)
                    self._written[name] = content
            self._written_number = contents.number
