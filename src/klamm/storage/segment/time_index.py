"""The time index of a segment: the largest timestamp so far, and the last offset of the batch that has it.

An entry has 12 bytes: timestamp in milliseconds, offset relative to the segment's base offset; both big-endian. An
entry (t, o) means that no record before o is younger than t. Both fields rise from entry to entry.

Source: `storage/internals/log/TimeIndex.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import ClassVar, Final

from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset
from klamm.storage.segment.index_file import CorruptIndex, IndexFile

__all__ = ["TimeIndex"]

_ENTRY: Final = Struct(">qi")
_unpack = _ENTRY.unpack_from
_pack = _ENTRY.pack


class TimeIndex(IndexFile):
    """Entries of (largest timestamp up to here, last offset of the batch that has it)."""

    ENTRY: ClassVar[Struct] = _ENTRY

    __slots__ = ()

    @property
    def is_full(self) -> bool:
        """Whether only the entry reserved for the roll is left."""
        return len(self.data) // 12 >= self.max_entries - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Appends an entry, unless the last one has a timestamp as large."""
        data = self.data
        last = _unpack(data, len(data) - 12)[0] if data else NO_TIMESTAMP
        if timestamp > last:
            data.extend(_pack(timestamp, offset - self.base_offset))

    def last_entry(self) -> tuple[Millis, Offset]:
        """Returns (timestamp, offset) of the last entry; (-1, base offset) if there is none."""
        last = self.last_bytes()
        return self._entry(last, 0) if last else (NO_TIMESTAMP, Offset(self.base_offset))

    def lookup(self, timestamp: int) -> tuple[Millis, Offset]:
        """Returns the last entry whose timestamp is not above `timestamp`; (-1, base offset) if there is none."""
        data = self.data
        index = bisect_right(range(len(data) // 12), timestamp, key=lambda entry: int(_unpack(data, entry * 12)[0]))
        return self._entry(data, (index - 1) * 12) if index else (NO_TIMESTAMP, Offset(self.base_offset))

    def truncate_to(self, offset: int) -> None:
        """Removes entries of `offset` and above. Raises OSError."""
        data = self.data
        index = bisect_right(
            range(len(data) // 12), offset - self.base_offset - 1, key=lambda entry: int(_unpack(data, entry * 12)[1])
        )
        self._cut(index)

    def check(self, data: bytearray) -> None:
        """Raises `CorruptIndex` if the last entry lies below the segment or is older than the first."""
        if not data:
            return
        first_timestamp, _ = _unpack(data, 0)
        last_timestamp, last_offset = _unpack(data, len(data) - 12)
        if last_offset < 0 or last_timestamp < first_timestamp:
            raise CorruptIndex(
                self.base_offset,
                f"{self.path} ends with timestamp {last_timestamp} at offset {self.base_offset + last_offset}, which "
                f"is before its beginning",
            )

    def _entry(self, data: bytes | bytearray, at: int) -> tuple[Millis, Offset]:
        timestamp, relative = _unpack(data, at)
        return timestamp, Offset(self.base_offset + relative)
