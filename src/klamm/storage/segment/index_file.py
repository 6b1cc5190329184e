"""The shared part of a segment's index files: entries of fixed size, kept in memory while they are used.

Entries are appended in memory and written when the segment is rolled, flushed or closed. That is safe, because an index
is derived from its log, and recovery rebuilds what was not written. So an append needs no system call for its index.

In memory an index is one bytearray in the file's own format, read when first needed and dropped by `unload`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from struct import Struct
from typing import ClassVar

from klamm.storage.atomic_file import FILE_MODE, write_atomically

__all__ = ["CorruptIndex", "IndexFile"]


class CorruptIndex(Exception):
    """The file can't be the index of the segment at `base_offset`. It must be rebuilt from the log."""

    def __init__(self, base_offset: int, reason: str) -> None:
        super().__init__(reason)
        self.base_offset = base_offset


class IndexFile(ABC):
    """The entries of one index file.

    `base_offset` is that of the segment, `max_bytes` the topic's `segment.index.bytes`.
    """

    ENTRY: ClassVar[Struct]

    __slots__ = ("_data", "_written_bytes", "base_offset", "max_entries", "path")

    def __init__(self, path: Path, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.ENTRY.size
        self._data: bytearray | None = None
        self._written_bytes = 0

    @property
    def data(self) -> bytearray:
        """All entries, in the file's format. Raises `CorruptIndex`, OSError."""
        data = self._data
        return data if data is not None else self._load()

    def load(self) -> None:
        """Loads the entries into memory. Raises `CorruptIndex`, OSError."""
        if self._data is None:
            self._load()

    @property
    def is_loaded(self) -> bool:
        """Whether the entries are in memory."""
        return self._data is not None

    @property
    def entries(self) -> int:
        """The number of entries."""
        return len(self.data) // self.ENTRY.size

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry."""
        return len(self.data) // self.ENTRY.size >= self.max_entries

    @property
    def has_unwritten_entries(self) -> bool:
        """Whether the file differs from the entries in memory, so that `write` is needed."""
        return self._data is not None and len(self._data) != self._written_bytes

    def _load(self) -> bytearray:
        try:
            data = bytearray(self.path.read_bytes())
        except FileNotFoundError as error:
            raise CorruptIndex(self.base_offset, f"{self.path} does not exist") from error
        if len(data) % self.ENTRY.size:
            raise CorruptIndex(
                self.base_offset, f"{self.path} has {len(data)} bytes, which is no multiple of {self.ENTRY.size}"
            )
        self._data = data
        self._written_bytes = len(data)
        try:
            self.check(data)
        except CorruptIndex:
            self._data = None
            raise
        return data

    def last_bytes(self) -> bytes | bytearray:
        """Returns the last entry's bytes, empty if there is none. It does not load the index into memory.

        Raises `CorruptIndex`, OSError.
        """
        size = self.ENTRY.size
        if self._data is not None:
            return self._data[-size:]
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise CorruptIndex(self.base_offset, f"{self.path} does not exist") from error
        try:
            length = os.fstat(descriptor).st_size
            if length % size:
                raise CorruptIndex(self.base_offset, f"{self.path} has {length} bytes, which is no multiple of {size}")
            return os.pread(descriptor, size, length - size) if length else b""
        finally:
            os.close(descriptor)

    @abstractmethod
    def check(self, data: bytearray) -> None:
        """Raises `CorruptIndex` if the entries can't be those of the segment."""

    def check_entries(self) -> None:
        """Raises `CorruptIndex` unless both fields rise from entry to entry, which is not certain after a power
        failure."""
        entries = self.ENTRY.iter_unpack(self.data)
        before = next(entries, None)
        for entry in entries:
            if before is not None and (entry[0] <= before[0] or entry[1] <= before[1]):
                raise CorruptIndex(self.base_offset, f"{self.path} has entries that do not rise")
            before = entry

    def reset(self) -> None:
        """Removes all entries in memory. The next `write` updates the file."""
        self._data = bytearray()
        self._written_bytes = -1

    def discard(self) -> None:
        """Discards the entries in memory, including unwritten ones."""
        self._data = None
        self._written_bytes = 0

    def unload(self) -> None:
        """Frees the memory, unless there are unwritten entries."""
        if self._data is not None and len(self._data) == self._written_bytes:
            self._data = None

    def write(self) -> None:
        """Updates the file. Raises OSError; entries that could not be written stay unwritten."""
        data = self._data
        if data is None or len(data) == self._written_bytes:
            return
        start = max(self._written_bytes, 0)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            if self._written_bytes < 0 or self._written_bytes > len(data):
                os.ftruncate(descriptor, min(start, len(data)))
                start = min(start, len(data))
            with memoryview(data) as view:
                while start < len(view):
                    start += os.pwrite(descriptor, view[start:], start)
        finally:
            os.close(descriptor)
        self._written_bytes = len(data)

    def replace_file(self) -> None:
        """Replaces the file atomically and syncs it, because a start would trust a partly written index.

        Raises OSError; the file is then unchanged, and unwritten entries stay unwritten.
        """
        write_atomically(self.path, self.data)
        self._written_bytes = len(self.data)

    def _cut(self, entries: int) -> None:
        """Keeps the first `entries`. The file is truncated at once, so that it never points beyond the log."""
        data = self.data
        size = entries * self.ENTRY.size
        if len(data) > size:
            del data[size:]
            if self._written_bytes > size:
                os.truncate(self.path, size)
                self._written_bytes = size
