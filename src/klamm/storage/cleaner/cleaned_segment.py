"""The segment that a cleaner writes: files with the suffix `.cleaned`, which are not read until they are swapped in.

Source: `UnifiedLog.createNewCleanedSegment`, `LogSegment.append` of Apache Kafka 4.3.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from klamm.core.log.compaction_batches import AbortedEntry
from klamm.protocol.record_batch import read_batch_header
from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset
from klamm.storage.atomic_file import FILE_MODE, sync_file, write_file
from klamm.storage.log_files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from klamm.storage.segment.offset_index import OffsetIndex
from klamm.storage.segment.time_index import TimeIndex
from klamm.storage.segment.transaction_index import encode_entries

__all__ = ["CleanedSegment"]

_NO_LIMIT_BYTES: Final = 2**31 - 1


class CleanedSegment:
    """Collects the retained batches and their index entries. Methods raise OSError; leaving the context closes the
    file.

    `buffer_bytes` are buffered before they are written.
    """

    def __init__(self, directory: Path, base_offset: Offset, *, index_interval_bytes: int, buffer_bytes: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = 0
        self._index_interval_bytes = index_interval_bytes
        self._buffer_bytes = buffer_bytes
        self._buffer: list[bytes | memoryview] = []
        self._buffered_bytes = 0
        self._bytes_since_index_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = base_offset
        self._offset_index = OffsetIndex(self._path(INDEX_SUFFIX), base_offset, _NO_LIMIT_BYTES)
        self._time_index = TimeIndex(self._path(TIME_INDEX_SUFFIX), base_offset, _NO_LIMIT_BYTES)
        self._offset_index.reset()
        self._time_index.reset()
        for path in self.paths:
            path.unlink(missing_ok=True)
        self._descriptor = os.open(
            self._path(LOG_SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE
        )

    def _path(self, suffix: str) -> Path:
        return self.directory / (file_name(self.base_offset, suffix) + CLEANED_SUFFIX)

    @property
    def paths(self) -> list[Path]:
        """The segment's files, the log first. The last one, the transaction index, may be missing."""
        return [
            self._path(suffix) for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        ]

    def append(self, batch: bytes | memoryview) -> int:
        """Appends a batch and returns the number of bytes that this call wrote to the file, 0 while batches are
        buffered."""
        header = read_batch_header(batch)
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = Millis(header.max_timestamp)
            self._offset_of_max_timestamp = header.last_offset
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._offset_index.append(header.last_offset, self.size_bytes)
            self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += len(batch)
        self.size_bytes += len(batch)
        self._buffer.append(batch)
        self._buffered_bytes += len(batch)
        return self.write() if self._buffered_bytes >= self._buffer_bytes else 0

    def write(self) -> int:
        """Writes the buffered batches and returns their size in bytes."""
        view = memoryview(b"".join(self._buffer))
        self._buffer.clear()
        written = self._buffered_bytes
        self._buffered_bytes = 0
        while view:
            view = view[os.write(self._descriptor, view) :]
        return written

    def finish(self, aborted: Iterable[AbortedEntry], modified_ns: int) -> None:
        """Writes the buffered batches and the indexes, and syncs all files.

        `modified_ns` becomes the log file's mtime.
        """
        self.write()
        if self._max_timestamp > NO_TIMESTAMP:
            self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
        self._offset_index.write()
        self._time_index.write()
        entries = encode_entries(aborted)
        transaction_index = self._path(TRANSACTION_INDEX_SUFFIX)
        if entries:
            write_file(transaction_index, entries)
        os.fsync(self._descriptor)
        os.utime(self._descriptor, ns=(modified_ns, modified_ns))
        for path in self.paths[1:]:
            if path.exists():
                sync_file(path)

    def remove(self) -> None:
        """Removes the segment's files. The next start removes those that can't be removed now."""
        for path in self.paths:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if error is not None:
            self.remove()
