"""Checks whether the entries of a segment's indexes fit its batches, while the batches are read.

The check requires that a search by the index finds every batch. `kafka-dump-log` requires exactly what Kafka 4.3
writes: an offset entry with the last offset of the batch at its position, a time entry with the last offset of a batch.
Earlier versions wrote one entry for several batches of one append, and their indexes are still valid.

Source: `DumpLogSegments.dumpIndex`, `dumpTimeIndex` and `LogSegment.append` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from klamm.storage.inspection.findings import Finding, Mend, MendKind, Severity
from klamm.storage.inspection.index_entries import (
    OffsetEntry,
    TimeEntry,
    read_offset_entries,
    read_time_entries,
    trailing_bytes,
)
from klamm.storage.inspection.segment_walk import GoodBatch

__all__ = ["OffsetIndexCheck", "TimeIndexCheck"]


class _IndexCheck:
    """The shared part of both checks. A missing index is not a problem: the next start rebuilds it."""

    def __init__(self, path: Path, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._problem: str | None = None
        if path.exists() and (rest := trailing_bytes(path)):
            self._problem = f"{rest} bytes at the end are too few for an entry"

    def _fail(self, text: str) -> None:
        if self._problem is None:
            self._problem = text

    def _end(self) -> None:
        """Checks the remaining entries after the last batch."""

    def findings(self) -> Iterator[Finding]:
        """Yields the first problem, after the last batch. One is enough, since the whole index is rebuilt."""
        self._end()
        if self._problem is not None:
            mend = Mend(MendKind.REMOVE, self.path)
            yield Finding(Severity.DERIVED, self.path, self._problem, offset=self.base_offset, mend=mend)


class OffsetIndexCheck(_IndexCheck):
    """Each entry must point to a batch, and a search that starts there must not miss the entry's offset."""

    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, base_offset)
        self._entries = read_offset_entries(path, base_offset) if path.exists() else iter(())
        self._next: OffsetEntry | None = next(self._entries, None)
        self._last: OffsetEntry | None = None
        self._end_offset = base_offset

    def batch(self, batch: GoodBatch) -> None:
        """Checks the entry of the next batch in file order."""
        self._end_offset = batch.header.next_offset
        entry = self._next
        if entry is None or entry.position > batch.position:
            return
        if entry.position < batch.position:
            self._fail(f"the entry for offset {entry.offset} points to position {entry.position}, where no batch is")
        elif entry.offset < batch.header.base_offset or (self._last and entry.offset <= self._last.offset):
            self._fail(
                f"the entry for position {entry.position} names offset {entry.offset}, but the batch there begins with "
                f"{batch.header.base_offset}"
            )
        self._last = entry
        self._next = next(self._entries, None) if self._problem is None else None

    def _end(self) -> None:
        if self._next is not None:
            self._fail(f"the entry for offset {self._next.offset} points beyond the log, to {self._next.position}")
        elif self._last is not None and self._last.offset >= self._end_offset:
            self._fail(f"an entry names offset {self._last.offset}, but the log ends before {self._end_offset}")


class TimeIndexCheck(_IndexCheck):
    """Each entry must have the largest timestamp up to its offset; timestamps and offsets must both rise."""

    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, base_offset)
        self._entries = read_time_entries(path, base_offset) if path.exists() else iter(())
        self._next: TimeEntry | None = next(self._entries, None)
        self._largest = -1

    def batch(self, batch: GoodBatch) -> None:
        """Checks the entries of the next batch in file order."""
        before = self._largest
        self._largest = max(before, batch.header.max_timestamp)
        while (entry := self._next) is not None and entry.offset <= batch.header.last_offset:
            if not before <= entry.timestamp <= self._largest:
                self._fail(
                    f"the entry for offset {entry.offset} has timestamp {entry.timestamp}, the largest up to there is "
                    f"{self._largest}"
                )
            following = next(self._entries, None) if self._problem is None else None
            if following is not None and (following.timestamp <= entry.timestamp or following.offset <= entry.offset):
                self._fail(f"the entry after the one for timestamp {entry.timestamp} does not rise")
                following = None
            self._next = following

    def _end(self) -> None:
        # Kafka closes an empty segment with an entry that has no timestamp.
        if self._next is not None and self._next.timestamp >= 0:
            self._fail(
                f"the entry for timestamp {self._next.timestamp} names offset {self._next.offset}, not in the log"
            )
