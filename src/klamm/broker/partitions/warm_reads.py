"""Reads the tail of a partition ahead, before the first Fetch of its new owner arrives.

When a partition moves between members, its new owner resumes from the committed offset. That part of the log may not
be in the page cache. A thread makes the kernel load these pages. Then the records for the first Fetch are read once and
kept until that Fetch arrives or until they expire. Each warm read serves one Fetch; later reads find their pages in
memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.storage.log.log_reader import FileRange

__all__ = ["WarmRead", "WarmReads"]

PAGES_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a partition's tail that are loaded into the page cache."""
_ADVICE_BYTES: Final = 128 * 1024
"""Bytes per `posix_fadvise` call: Linux follows one call only up to the disk's read-ahead, which is usually 128 KiB."""
_ANSWER_BYTES: Final = 1024 * 1024
"""Bytes kept for the first Fetch: the default maximum that clients request for one partition."""
_KEPT_BYTES: Final = 64 * 1024 * 1024
_KEPT_S: Final = 60.0
"""Seconds that a warm read is kept. A member that has not fetched the partition by then may never do so."""


class WarmRead(NamedTuple):
    """Whole batches of a partition, read before the Fetch that will request them."""

    offset: Offset
    end_offset: Offset
    leader_epoch: LeaderEpoch
    log_changes: int
    """The changes of the log before the read (`LogReader.changes`). After a cleaning, the log may not name the aborted
    transactions of these records any more."""
    records: bytes | memoryview

    def serves(self, partition: Partition, offset: int, max_bytes: int, upper_bound: Offset) -> bool:
        """Returns whether these records can answer a read of that offset with these limits."""
        return (
            offset == self.offset
            and len(self.records) <= max_bytes
            and self.end_offset <= upper_bound
            and self.leader_epoch == partition.leader_epoch
            and self.log_changes == partition.log.reader.changes
            and partition.log.log_start_offset <= offset
            and not partition.log.is_offline
        )


class WarmReads:
    """All warm reads that are not fetched yet, oldest first."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._kept: dict[Partition, asyncio.TimerHandle] = {}
        self._kept_bytes = 0
        self._is_stopped = False

    def prepare(self, partition: Partition, offset: Offset) -> None:
        """Prepares a read of the partition from `offset` on. Does nothing if there are no records to read."""
        ranges = partition.log.reader.file_ranges(offset, PAGES_BYTES)
        if not ranges:
            return
        pages = self._loop.run_in_executor(None, _bring_in, ranges)
        pages.add_done_callback(lambda _: self._read(partition, offset))

    def forget(self, partition: Partition) -> None:
        """Drops the warm read of a partition that this broker stops leading."""
        self._drop(partition)

    def stop(self) -> None:
        """Drops all warm reads, including those in progress."""
        self._is_stopped = True
        for partition in list(self._kept):
            self._drop(partition)

    def _read(self, partition: Partition, offset: Offset) -> None:
        if self._is_stopped or not partition.leads:
            return
        log = partition.log
        if partition.warm_read is not None:
            self._drop(partition)
        try:
            records = log.read(offset, _ANSWER_BYTES, upper_bound=log.last_stable_offset, minimum_one_batch=False)
        except KafkaError:
            return  # The Fetch will get the same error and report it.
        end = offset
        for _, header in iterate_batches(records):
            end = header.next_offset
        if end == offset:
            return
        partition.warm_read = WarmRead(offset, Offset(end), partition.leader_epoch, log.reader.changes, records)
        self._kept[partition] = self._loop.call_later(_KEPT_S, self._drop, partition)
        self._kept_bytes += len(records)
        while self._kept_bytes > _KEPT_BYTES:
            self._drop(next(iter(self._kept)))

    def take(self, partition: Partition, read: WarmRead) -> bytes | memoryview:
        """Returns the records for a Fetch and drops the warm read."""
        self._drop(partition)
        return read.records

    def _drop(self, partition: Partition) -> None:
        handle = self._kept.pop(partition, None)
        if handle is not None:
            handle.cancel()
        if partition.warm_read is not None:
            self._kept_bytes -= len(partition.warm_read.records)
            partition.warm_read = None


def _bring_in(ranges: Sequence[FileRange]) -> None:
    """Makes the kernel read the pages, and waits until the first pages are in memory."""
    for index, (path, start, length) in enumerate(ranges):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # Retention has deleted the segment.
        try:
            if hasattr(os, "posix_fadvise"):
                for position in range(start, start + length, _ADVICE_BYTES):
                    size_bytes = min(_ADVICE_BYTES, start + length - position)
                    os.posix_fadvise(descriptor, position, size_bytes, os.POSIX_FADV_WILLNEED)
            if not index:
                os.pread(descriptor, min(length, _ANSWER_BYTES), start)
        except OSError:
            return
        finally:
            os.close(descriptor)
