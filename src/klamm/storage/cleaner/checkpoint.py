"""The file `cleaner-offset-checkpoint` of a data directory: the first dirty offset of each log.

The file also tells which logs may have gaps between their offsets, whatever their current `cleanup.policy` is.

Source: `LogCleanerManager.updateCheckpoints` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from pathlib import Path
from threading import Event, Lock
from typing import Final

from klamm.protocol.types import Offset, TopicPartition
from klamm.storage.atomic_file import write_atomically
from klamm.storage.checkpoints import MalformedCheckpoint, encode_offsets, read_offsets

__all__ = ["CLEANER_OFFSET_FILE", "CleanerCheckpoint"]

_logger = logging.getLogger(__name__)

CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"


class CleanerCheckpoint:
    """The first dirty offset of each log that was ever cleaned. Several threads may use it."""

    __slots__ = ("_lock", "_offsets", "_path")

    def __init__(self, directory: Path) -> None:
        self._path = directory / CLEANER_OFFSET_FILE
        self._lock = Lock()
        self._offsets: dict[TopicPartition, Offset] = {}

    def read(self) -> None:
        """Reads the offsets that an earlier run wrote. Without them, every log is dirty from its start.

        Raises OSError.
        """
        try:
            self._offsets = read_offsets(self._path)
        except MalformedCheckpoint as error:
            _logger.warning("%s; it is treated as empty", error)

    def get(self, topic_partition: TopicPartition) -> Offset | None:
        """Returns the offset at which the last cleaning stopped, None if the log was never cleaned."""
        return self._offsets.get(topic_partition)

    def set(
        self, topic_partition: TopicPartition, offset: Offset, known: Container[TopicPartition], stopped: Event
    ) -> None:
        """Stores the offset at which a cleaning stopped, and forgets logs that are not `known`. Raises OSError.

        Does nothing if the cleaning is `stopped`: a truncation stops it and then calls `lower`, which must be last.
        """
        with self._lock:
            if stopped.is_set():
                return
            offsets = {each: noted for each, noted in self._offsets.items() if each in known}
            offsets[topic_partition] = offset
            self._write(offsets)

    def lower(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Lowers the first dirty offset of a log that was truncated to `offset`. Raises OSError."""
        with self._lock:
            if self._offsets.get(topic_partition, offset) > offset:
                self._write({**self._offsets, topic_partition: offset})

    def forget(self, topic_partition: TopicPartition) -> None:
        """Removes a deleted log, because another log may get the same name. Raises OSError."""
        with self._lock:
            if topic_partition in self._offsets:
                self._write({each: noted for each, noted in self._offsets.items() if each != topic_partition})

    def _write(self, offsets: dict[TopicPartition, Offset]) -> None:
        write_atomically(self._path, encode_offsets(offsets))
        self._offsets = offsets
