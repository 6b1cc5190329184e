"""How many records a member holds, and which partitions it pauses."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RecordWindow"]


@dataclass(frozen=True, slots=True)
class RecordWindow:
    """The most that the partitions of one handler hold together, in records that are not finished.

    Each partition has an equal share, so that a partition that stands still leaves room for the others. A partition is
    paused when its share is used up, and resumed when half of the share is free. A poll may exceed the window by the
    records that it returns at once.
    """

    records: int = 10_000
    size_bytes: int = 64 << 20
    note_characters: int = 4096
    """The length of the commit's metadata that the broker accepts (`offset.metadata.max.bytes`)."""

    def is_full(self, records: int, size_bytes: int, partitions: int) -> bool:
        """Returns whether a partition has used up its share, if there are so many partitions."""
        return records * partitions >= self.records or size_bytes * partitions >= self.size_bytes

    def has_room(self, records: int, size_bytes: int, partitions: int) -> bool:
        """Returns whether half of a partition's share is free."""
        return 2 * records * partitions <= self.records and 2 * size_bytes * partitions <= self.size_bytes
