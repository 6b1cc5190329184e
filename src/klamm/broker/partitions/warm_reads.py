"""Partitions that are about to be read by somebody new: their tails are made ready before the first Fetch comes.

When a partition moves between members, its new owner goes on from the committed offset, which may lie where nobody has
read for long. A thread has the kernel bring these pages in; then what the first Fetch will ask for is read once and
kept until it is asked for, or too old. A read that was made ready is handed out once; everything after it finds its
pages in memory.
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
    from klamm.storage.log_reader import FileRange

__all__ = ["WarmRead", "WarmReads"]

PAGES_BYTES: Final = 8 * 1024 * 1024
"""So much of a partition's tail is brought into the page cache."""
ADVICE_BYTES: Final = 128 * 1024
"""So much in one go: Linux follows one advice only as far as the disk reads ahead anyway, which is mostly so far."""
ANSWER_BYTES: Final = 1024 * 1024
"""So much is kept for the first Fetch: what clients ask for of one partition by default."""
KEPT_BYTES: Final = 64 * 1024 * 1024
KEPT_S: Final = 60.0
"""A member that has not come for its partition in that time may not come at all."""


class WarmRead(NamedTuple):
    """Whole batches of a partition, read ahead of the Fetch that will ask for them."""

    offset: Offset
    end_offset: Offset
    leader_epoch: LeaderEpoch
    records: bytes | memoryview

    def serves(self, partition: Partition, offset: int, max_bytes: int, upper_bound: Offset) -> bool:
        """Whether a read of that offset, with these limits, would have given just this."""
        return (
            offset == self.offset
            and len(self.records) <= max_bytes
            and self.end_offset <= upper_bound
            and self.leader_epoch == partition.leader_epoch
            and partition.log.log_start_offset <= offset
            and not partition.log.is_offline
        )


class WarmReads:
    """What was made ready and not fetched yet, oldest first."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._kept: dict[Partition, asyncio.TimerHandle] = {}
        self._kept_bytes = 0
        self._is_stopped = False

    def prepare(self, partition: Partition, offset: Offset) -> None:
        """Gets the partition ready to be read from `offset` on. Nothing happens where there is nothing to read."""
        ranges = partition.log.reader.file_ranges(offset, PAGES_BYTES)
        if not ranges:
            return
        pages = self._loop.run_in_executor(None, _bring_in, ranges)
        pages.add_done_callback(lambda _: self._read(partition, offset))

    def stop(self) -> None:
        """Forgets everything, and what is under way."""
        self._is_stopped = True
        for partition in list(self._kept):
            self._drop(partition)

    def _read(self, partition: Partition, offset: Offset) -> None:
        if self._is_stopped:
            return
        log = partition.log
        if partition.warm_read is not None:
            self._drop(partition)
        try:
            records = log.read(offset, ANSWER_BYTES, upper_bound=log.last_stable_offset, minimum_one_batch=False)
        except KafkaError:
            return  # The Fetch that comes will meet it, and say so.
        end = offset
        for _, header in iterate_batches(records):
            end = header.next_offset
        if end == offset:
            return
        partition.warm_read = WarmRead(offset, Offset(end), partition.leader_epoch, records)
        self._kept[partition] = self._loop.call_later(KEPT_S, self._drop, partition)
        self._kept_bytes += len(records)
        while self._kept_bytes > KEPT_BYTES:
            self._drop(next(iter(self._kept)))

    def take(self, partition: Partition, read: WarmRead) -> bytes | memoryview:
        """The records, for the one Fetch that gets them."""
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
    """Has the kernel read the pages, and waits until the first of them are there."""
    for index, (path, start, length) in enumerate(ranges):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # The segment went with retention.
        try:
            if hasattr(os, "posix_fadvise"):
                for position in range(start, start + length, ADVICE_BYTES):
                    size_bytes = min(ADVICE_BYTES, start + length - position)
                    os.posix_fadvise(descriptor, position, size_bytes, os.POSIX_FADV_WILLNEED)
            if not index:
                os.pread(descriptor, min(length, ANSWER_BYTES), start)
        except OSError:
            return
        finally:
            os.close(descriptor)
