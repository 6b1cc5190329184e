"""One segment of a log: the batches from its base offset on, two sparse indexes, and the index of aborted transactions.

Source: `storage/internals/log/LogSegment.java` of Apache Kafka 4.3: when index entries are made, when a segment is full
or old enough to be rolled.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset
from klamm.storage.atomic_file import FILE_MODE
from klamm.storage.log_files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
    let_go_name,
)
from klamm.storage.segment.batch_scan import scan_headers
from klamm.storage.segment.file_pool import FilePool
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.offset_index import OffsetIndex
from klamm.storage.segment.time_index import TimeIndex
from klamm.storage.segment.transaction_index import TransactionIndex

__all__ = ["MAX_RELATIVE_OFFSET", "Segment", "SegmentSettings"]

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
"""The largest distance of an offset from the base offset of its segment: the indexes have four bytes for it."""
_CLOSED: Final = -1
_UNKNOWN: Final = -2
"""A timestamp that was not looked up yet; -1 means that no record has a timestamp."""


class SegmentSettings:
    """The settings of a log's configuration for the segments that it opens."""

    __slots__ = ("index_interval_bytes", "max_index_bytes", "pool", "roll_jitter_ms")

    def __init__(
        self, pool: FilePool, *, index_interval_bytes: int, max_index_bytes: int, roll_jitter_ms: int = 0
    ) -> None:
        self.pool = pool
        self.index_interval_bytes = index_interval_bytes
        self.max_index_bytes = max_index_bytes
        self.roll_jitter_ms = roll_jitter_ms


class Segment:
    """The file `<base offset>.log` with its indexes.

    `size_bytes` is the position of the next batch. Bytes beyond it are left over from a failed write and are never
    read. Methods that access files raise OSError; those that need an index or walk the log also raise `CorruptIndex`
    and `BadBatch`.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_descriptor",
        "_first_timestamp",
        "_index_interval_bytes",
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "_pool",
        "_roll_jitter_ms",
        "base_offset",
        "checked",
        "created_ms",
        "directory",
        "offset_index",
        "size_bytes",
        "time_index",
        "transaction_index",
        "unchecked_end",
        "used",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: Offset,
        settings: SegmentSettings,
        *,
        created_ms: Millis,
        size_bytes: int = 0,
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self.used = True
        self.unchecked_end = size_bytes
        """Batches below this position were on the disk when the segment was opened, and need the check of
        `first_read`."""
        self.checked = 0, 0
        """The range below `unchecked_end` that is known to be intact."""
        self.offset_index = OffsetIndex(
            directory / file_name(base_offset, INDEX_SUFFIX), base_offset, settings.max_index_bytes
        )
        self.time_index = TimeIndex(
            directory / file_name(base_offset, TIME_INDEX_SUFFIX), base_offset, settings.max_index_bytes
        )
        self.transaction_index = TransactionIndex(
            directory / file_name(base_offset, TRANSACTION_INDEX_SUFFIX), base_offset
        )
        self._pool = settings.pool
        self._index_interval_bytes = settings.index_interval_bytes
        self._roll_jitter_ms = settings.roll_jitter_ms
        self._descriptor = _CLOSED
        self._bytes_since_index_entry = 0
        self._first_timestamp = Millis(_UNKNOWN)
        self._max_timestamp = Millis(_UNKNOWN)
        self._offset_of_max_timestamp = base_offset

    @classmethod
    def create(cls, directory: Path, base_offset: Offset, settings: SegmentSettings, *, created_ms: Millis) -> Segment:
        """Creates an empty segment with its three files. If that fails, none of them is left."""
        segment = cls(directory, base_offset, settings, created_ms=created_ms)
        try:
            segment._adopt(os.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE))
            segment.reset_indexes()
            segment.transaction_index.reset()
            segment.write_indexes()
        except OSError:
            segment.delete()
            raise
        return segment

    # -- the files -----------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The log file."""
        return self.directory / file_name(self.base_offset, LOG_SUFFIX)

    @property
    def index_paths(self) -> tuple[Path, Path, Path]:
        """The index files. The transaction index may be missing."""
        return self.offset_index.path, self.time_index.path, self.transaction_index.path

    @property
    def descriptor(self) -> int:
        """The open log file. It may be closed again as soon as another segment is used."""
        self.used = True
        if self._descriptor != _CLOSED:
            return self._descriptor
        return self._adopt(os.open(self.path, os.O_RDWR | os.O_CLOEXEC))

    def _adopt(self, descriptor: int) -> int:
        self._descriptor = descriptor
        self._pool.opened(self)
        return descriptor

    def release(self) -> None:
        """Closes the file and unloads the indexes. Called by the pool to reclaim a descriptor."""
        if self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED
        self.offset_index.unload()
        self.time_index.unload()
        self.transaction_index.unload()

    def close(self) -> None:
        """Closes the file. Unwritten index entries stay in memory."""
        if self._descriptor != _CLOSED:
            self._pool.closed(self)
        self.release()

    def move_to(self, directory: Path) -> None:
        """Updates the paths after the folder was renamed."""
        self.directory = directory
        self.offset_index.path = directory / self.offset_index.path.name
        self.time_index.path = directory / self.time_index.path.name
        self.transaction_index.path = directory / self.transaction_index.path.name

    def _paths(self) -> list[Path]:
        return [
            self.directory / file_name(self.base_offset, suffix)
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        ]

    def delete(self) -> None:
        """Removes the files at once."""
        self.close()
        for path in self._paths():
            path.unlink(missing_ok=True)

    def retire(self, log_start_offset: Offset | None = None) -> list[Path]:
        """Renames the files so that they no longer belong to a segment. Returns the new names, to be removed later.

        `log_start_offset`: the new log start offset, if this segment is deleted at the beginning. The name of the log
        file contains it.
        """
        self.close()
        retired = []
        for path in self._paths():
            name = path.name + DELETED_SUFFIX
            if log_start_offset is not None and path.suffix == LOG_SUFFIX:
                name = let_go_name(path.name, log_start_offset)
            target = path.with_name(name)
            try:
                path.rename(target)
            except FileNotFoundError:
                continue
            retired.append(target)
        return retired

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, prefix: bytes, rest: memoryview, last_offset: int, max_timestamp: int) -> None:
        """Appends one batch, given in two parts.

        If it raises OSError, only bytes beyond the end have changed: see `cut_back`.
        """
        position = self.size_bytes
        descriptor = self._descriptor
        if descriptor == _CLOSED:
            descriptor = self.descriptor
        else:
            self.used = True
        size = len(prefix) + len(rest)
        written = os.pwritev(descriptor, (prefix, rest), position)
        if written != size:
            _write_rest(descriptor, prefix, rest, position, written)
        self.add_to_indexes(position, size, last_offset, max_timestamp)

    def add_to_indexes(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Adds a batch at `position`, the current end, to the size and the indexes.

        An index entry is made when more than `index.interval.bytes` follow the last one.
        """
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = Millis(max_timestamp)
            self._offset_of_max_timestamp = Offset(last_offset)
        if position == 0:
            self._first_timestamp = Millis(max_timestamp)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size
        self.size_bytes = position + size

    def cut_back(self) -> None:
        """Removes bytes that a failed write left beyond the end."""
        os.ftruncate(self.descriptor, self.size_bytes)

    def truncate(self, position: int, offset: Offset) -> None:
        """Removes the batch at `position` and all later ones. The batches before it end at `offset`."""
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        os.ftruncate(self.descriptor, position)
        self.size_bytes = position
        self._bytes_since_index_entry = 0
        if position == 0:
            self._first_timestamp = Millis(_UNKNOWN)
        # The index has no timestamps after its last entry, so the batches from that entry on are read.
        self._max_timestamp, self._offset_of_max_timestamp = self.time_index.last_entry()
        start = self.offset_index.lookup(self._offset_of_max_timestamp)[1]
        for batch in scan_headers(self.descriptor, start, position):
            if batch.header.max_timestamp > self._max_timestamp:
                self._max_timestamp = batch.header.max_timestamp
                self._offset_of_max_timestamp = batch.header.last_offset

    # -- indexes -------------------------------------------------------------------------------------------------------

    def reset_indexes(self) -> None:
        """Empties the two sparse indexes, so that they can be filled again."""
        self.offset_index.reset()
        self.time_index.reset()
        self._bytes_since_index_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = self.base_offset
        self._first_timestamp = Millis(_UNKNOWN)

    def discard_indexes(self) -> None:
        """Discards the two sparse indexes in memory. They are then read from their files."""
        self.offset_index.discard()
        self.time_index.discard()
        self._bytes_since_index_entry = 0
        self._max_timestamp = Millis(_UNKNOWN)

    def replace_indexes(self) -> None:
        """Replaces the files of the two sparse indexes atomically, with a sync. Raises OSError."""
        self.time_index.replace_file()
        self.offset_index.replace_file()

    @property
    def has_read_indexes(self) -> bool:
        """Whether entries can be appended. A search by time may have read the largest timestamp alone."""
        return self._max_timestamp != _UNKNOWN and self.offset_index.is_loaded and self.time_index.is_loaded

    def read_indexes(self) -> None:
        """Loads the two sparse indexes into memory. Raises CorruptIndex, OSError."""
        self.offset_index.load()
        self.time_index.load()
        self._load_max_timestamp()

    def resume_indexes(self, end_offset: Offset) -> int:
        """Keeps the entries of both sparse indexes that are certainly right below `end_offset`; later ones can be
        appended.

        Returns the position of the batch at which to continue with `add_to_indexes`. Raises also CorruptIndex.
        """
        for index in (self.offset_index, self.time_index):
            index.check_entries()
            index.truncate_to(end_offset)
        self._max_timestamp, self._offset_of_max_timestamp = self.time_index.last_entry()
        last_offset, position = self.offset_index.last_entry()
        if not position:
            return 0
        found = next(scan_headers(self.descriptor, position, self.size_bytes), None)
        if found is None or found.header.last_offset != last_offset:
            raise CorruptIndex(self.base_offset, f"{self.offset_index.path} ends with what is no batch of its log")
        start = self.offset_index.lookup(self._offset_of_max_timestamp)[1]
        is_checked = False
        for at, header in scan_headers(self.descriptor, start, self.size_bytes):
            if at > position and is_checked:
                break
            if not is_checked and header.last_offset >= self._offset_of_max_timestamp:
                self.check_time_entry(self._max_timestamp, header)
                is_checked = True
            # After a power failure the files may be of different moments: the time index, of an earlier one.
            if at <= position and header.max_timestamp > self._max_timestamp:
                raise CorruptIndex(self.base_offset, f"{self.time_index.path} ends before the offset index does")
        self._bytes_since_index_entry = 0
        return position

    def check_time_entry(self, timestamp: int, header: BatchHeader) -> None:
        """Raises CorruptIndex unless a time index entry has the largest timestamp of the batch that it names.

        The index is not synced while its segment is written, so it may hold any bytes after a power failure.
        """
        if header.max_timestamp != timestamp:
            raise CorruptIndex(
                self.base_offset,
                f"{self.time_index.path} has timestamp {timestamp} for the batch at offset {header.base_offset}, whose "
                f"largest is {header.max_timestamp}",
            )

    def write_indexes(self) -> None:
        """Writes unwritten entries to the index files."""
        # In this order, so that `resume_indexes` finds no batch in the offset index that is missing from the time
        # index.
        self.time_index.write()
        self.offset_index.write()
        self.transaction_index.write()

    def seal(self) -> None:
        """Adds the last entry to the time index, so that it ends with the segment's largest timestamp.

        Called when the segment is not written any more, or not before a restart.
        """
        if self._max_timestamp > NO_TIMESTAMP:
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)

    @property
    def has_unwritten_entries(self) -> bool:
        """Whether an index file lacks entries."""
        return (
            self.offset_index.has_unwritten_entries
            or self.time_index.has_unwritten_entries
            or self.transaction_index.has_unwritten_entries
        )

    # -- time ----------------------------------------------------------------------------------------------------------

    def _load_max_timestamp(self) -> None:
        self._max_timestamp, self._offset_of_max_timestamp = self.time_index.last_entry()

    @property
    def max_timestamp(self) -> Millis:
        """The largest timestamp of the records, -1 if none has one."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> Offset:
        """The last offset of the first batch that has the largest timestamp."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._offset_of_max_timestamp

    def largest_timestamp(self) -> Millis:
        """Returns the largest timestamp of the records, or the file's modification time if none has one."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else Millis(self.path.stat().st_mtime_ns // 1_000_000)

    def first_batch_timestamp(self) -> Millis:
        """Returns the largest timestamp of the first batch, -1 if it has none."""
        if self._first_timestamp == _UNKNOWN:
            self._first_timestamp = NO_TIMESTAMP
            for batch in scan_headers(self.descriptor, 0, self.size_bytes):
                self._first_timestamp = batch.header.max_timestamp
                break
        return self._first_timestamp

    # -- rolling -------------------------------------------------------------------------------------------------------

    def should_roll(
        self,
        batch_bytes: int,
        last_offset: int,
        max_timestamp: int,
        *,
        now_ms: Millis,
        max_segment_bytes: int,
        max_segment_ms: int,
    ) -> bool:
        """Returns whether a batch needs a new segment, because of size, age, full indexes, or an offset that is too
        large.

        The age is the difference of the timestamps of the first batch and this one, or clock time without timestamps.
        """
        size = self.size_bytes
        if size > max_segment_bytes - batch_bytes:
            return True
        if size == 0:
            return last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        first = self._first_timestamp
        if first == _UNKNOWN:
            first = self.first_batch_timestamp()
        waited = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return (
            waited > max_segment_ms - self._roll_jitter_ms
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or self.offset_index.is_full
            or self.time_index.is_full
        )


def _write_rest(descriptor: int, prefix: bytes, rest: memoryview, position: int, written: int) -> None:
    """Continues a write that took only part of the bytes, which happens shortly before a disk is full."""
    size = len(prefix) + len(rest)
    while written < size:
        if written < len(prefix):
            buffers: tuple[bytes | memoryview, ...] = (prefix[written:], rest)
        else:
            buffers = (rest[written - len(prefix) :],)
        written += os.pwritev(descriptor, buffers, position + written)
