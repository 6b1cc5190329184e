"""The offset index of a segment: for some batches, the last offset and the position in the log file.

An entry has 8 bytes: offset relative to the segment's base offset, position; both big-endian, both rising.

Source: `storage/internals/log/OffsetIndex.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import ClassVar, Final

from klamm.protocol.types import Offset
from klamm.storage.segment.index_file import CorruptIndex, IndexFile

__all__ = ["OffsetIndex"]

_ENTRY: Final = Struct(">ii")
_unpack = _ENTRY.unpack_from
_pack = _ENTRY.pack


class OffsetIndex(IndexFile):
    """Entries of (last offset of a batch, position of the batch)."""

    ENTRY: ClassVar[Struct] = _ENTRY

    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        """Appends an entry for the batch at `position` with last offset `offset`; both must be above those of the last
        entry."""
        self.data.extend(_pack(offset - self.base_offset, position))

    def last_entry(self) -> tuple[Offset, int]:
        """Returns (offset, position) of the last entry; (base offset, 0) if there is none."""
        last = self.last_bytes()
        return self._entry(last, 0) if last else (Offset(self.base_offset), 0)

    def lookup(self, offset: int) -> tuple[Offset, int]:
        """Returns the last entry whose offset is not above `offset`; (base offset, 0) if there is none.

        A batch that holds `offset` begins at that position or after it.
        """
        data = self.data
        index = bisect_right(
            range(len(data) >> 3), offset - self.base_offset, key=lambda entry: int(_unpack(data, entry << 3)[0])
        )
        return self._entry(data, index - 1 << 3) if index else (Offset(self.base_offset), 0)

    def last_entry_up_to(self, position: int) -> tuple[Offset, int]:
        """Returns (offset, position) of the last entry at `position` or before it; (base offset, 0) if there is
        none."""
        data = self.data
        index = bisect_right(range(len(data) >> 3), position, key=lambda entry: int(_unpack(data, entry << 3)[1]))
        return self._entry(data, index - 1 << 3) if index else (Offset(self.base_offset), 0)

    def first_entry_from(self, position: int) -> tuple[Offset, int] | None:
        """Returns (offset, position) of the first entry at `position` or after it, None if there is none."""
        data = self.data
        index = bisect_left(range(len(data) >> 3), position, key=lambda entry: int(_unpack(data, entry << 3)[1]))
        return self._entry(data, index << 3) if index < len(data) >> 3 else None

    def truncate_to(self, offset: int) -> None:
        """Removes entries of `offset` and above. Raises OSError."""
        data = self.data
        index = bisect_right(
            range(len(data) >> 3), offset - self.base_offset - 1, key=lambda entry: int(_unpack(data, entry << 3)[0])
        )
        self._cut(index)

    def check(self, data: bytearray) -> None:
        """Raises `CorruptIndex` if the first entry lies below the segment, or the last entry below the first one."""
        if not data:
            return
        first_offset, first_position = _unpack(data, 0)
        last_offset, last_position = _unpack(data, len(data) - 8)
        if min(first_offset, first_position) < 0 or last_offset < first_offset or last_position < first_position:
            raise CorruptIndex(
                self.base_offset,
                f"{self.path} begins with offset {self.base_offset + first_offset} at {first_position} and ends with "
                f"offset {self.base_offset + last_offset} at {last_position}",
            )

    def _entry(self, data: bytes | bytearray, at: int) -> tuple[Offset, int]:
        relative, position = _unpack(data, at)
        return Offset(self.base_offset + relative), position
