"""What the two sparse indexes of a segment share: entries of one size, in a file, in memory while they are used.

Entries are added in memory and written when the segment is rolled, flushed or closed. That is safe: an index is derived
from its log, and recovery builds anew what was not written. So an append costs no system call for its index.

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
    """The file can't be the index of the segment at `base_offset`: it must be built anew from the log."""

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
        """Has the entries in memory. Raises `CorruptIndex`, OSError."""
        if self._data is None:
            self._load()

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return len(self.data) // self.ENTRY.size

    @property
    def is_full(self) -> bool:
        """Whether no entry fits any more."""
        return len(self.data) // self.ENTRY.size >= self.max_entries

    @property
    def has_unwritten_entries(self) -> bool:
        """Whether `write` has something to do."""
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
        """The last entry's bytes, empty if there is none; an index that is not in memory is not read for it.

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
        """Raises `CorruptIndex` unless both fields of every entry are above those of the one before, which after a
        power failure is not to be taken for granted."""
        entries = self.ENTRY.iter_unpack(self.data)
        before = next(entries, None)
        for entry in entries:
            if before is not None and (entry[0] <= before[0] or entry[1] <= before[1]):
                raise CorruptIndex(self.base_offset, f"{self.path} has entries that do not rise")
            before = entry

    def reset(self) -> None:
        """Starts anew without entries; the file follows with `write`."""
        self._data = bytearray()
        self._written_bytes = -1

    def discard(self) -> None:
        """Forgets what is not in the file."""
        self._data = None
        self._written_bytes = 0

    def unload(self) -> None:
        """Frees the memory, unless there are entries that are not in the file yet."""
        if self._data is not None and len(self._data) == self._written_bytes:
            self._data = None

    def write(self) -> None:
        """Brings the file up to date. Raises OSError; what is not written then stays to be written."""
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
        """Puts the index in the place of its file, synced and as a whole: entries of a part would be believed.

        Raises OSError; the file is then as it was, and what is not written stays to be written.
        """
        write_atomically(self.path, self.data)
        self._written_bytes = len(self.data)

    def _cut(self, entries: int) -> None:
        """Keeps the first `entries`; the file follows at once, so that it never points beyond the log."""
        data = self.data
        size = entries * self.ENTRY.size
        if len(data) > size:
            del data[size:]
            if self._written_bytes > size:
                os.truncate(self.path, size)
                self._written_bytes = size
