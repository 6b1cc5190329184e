"""How many records a member holds, and which partitions it pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["PATIENCE_MS", "RecordWindow"]

PATIENCE_MS: Final = 100
"""How long the first unfinished record of a partition may wait before the partition counts as slow."""


@dataclass(frozen=True, slots=True)
class RecordWindow:
    """The most that the partitions of one handler hold together, in records that are not finished.

    While the window is full, nothing more is read; a read may exceed the window by the records that it returns at once.
    Each partition has an equal share, so that a slow partition leaves room for the others: a slow partition is paused
    when its share is used up, and any partition when it holds half of the window. It is resumed when half of its share
    is free.
    """

    records: int = 20_000
    size_bytes: int = 64 << 20
    note_characters: int = 4096
    """The length of the commit's metadata that the broker accepts (`offset.metadata.max.bytes`)."""

    def is_full(self, records: int, size_bytes: int, parts: int = 1) -> bool:
        """Returns whether the records fill one part of the window, if it is divided into `parts` equal parts."""
        return records * parts >= self.records or size_bytes * parts >= self.size_bytes

    def has_room(self, records: int, size_bytes: int, parts: int) -> bool:
        """Returns whether half of one part is free, if the window is divided into `parts` equal parts."""
        return 2 * records * parts <= self.records and 2 * size_bytes * parts <= self.size_bytes
