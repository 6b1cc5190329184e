"""The segments of one log, in order: adds them at the end, removes them at the beginning, truncates the end.

Source: `storage/internals/log/LocalLog.java`, `LogSegments.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from klamm.core.log.retention import SegmentFacts
from klamm.protocol.types import Millis, Offset
from klamm.storage.atomic_file import sync_directory
from klamm.storage.cleaner.swap import SwapFiles
from klamm.storage.log_files import SNAPSHOT_SUFFIX, deleted_to, file_name, parse_offset
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.damage import damage_in
from klamm.storage.segment.segment import Segment, SegmentSettings
from klamm.storage.segment.segment_search import end_before, find_batch

__all__ = ["Cut", "Segments"]


class Cut(NamedTuple):
    """The place of a truncation: the new end offset, and the position in one of the segments.

    Without a position all segments are removed, and an empty one begins at the end offset.
    """

    end: Offset
    segment: int
    position: int | None


class Segments:
    """At least one segment; the last one is active. Only an offline log may have none.

    Methods raise OSError; those that read segments also raise BadBatch and CorruptIndex.
    """

    __slots__ = ("_removals", "_segments", "active", "directory", "settings")

    def __init__(
        self,
        directory: Path,
        settings: SegmentSettings,
        segments: list[Segment],
        removals: Iterable[tuple[Millis, Path]] = (),
    ) -> None:
        """Takes over loaded segments.

        `removals`: files that are due for removal, and the time from which on they are due.
        """
        self.directory = directory
        self.settings = settings
        self.active = segments[-1] if segments else None
        self._segments = segments
        self._removals = list(removals)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def size_bytes(self) -> int:
        """The size of all log files."""
        return sum(segment.size_bytes for segment in self._segments)

    def index_of(self, offset: int) -> int:
        """Returns the index of the segment for `offset`; the first one for lower offsets."""
        segments = self._segments
        if offset >= segments[-1].base_offset:
            return len(segments) - 1
        return max(0, bisect_right(segments, offset, key=_base_offset_of) - 1)

    def facts(self, log_end_offset: Offset) -> list[SegmentFacts]:
        """Returns the facts about each segment that retention needs. Raises Damage for a bad batch."""
        ends = [segment.base_offset for segment in self._segments[1:]]
        facts = []
        for segment, end in zip(self._segments, [*ends, log_end_offset], strict=True):
            try:
                facts.append(SegmentFacts(end, segment.size_bytes, segment.largest_timestamp()))
            except BadBatch as error:
                raise damage_in(segment, error) from error
        return facts

    def add(self, base_offset: Offset, now_ms: Millis) -> Segment:
        """Adds an empty active segment and returns it."""
        segment = Segment.create(self.directory, base_offset, self.settings, created_ms=now_ms)
        self._segments.append(segment)
        self.active = segment
        return segment

    def drop_first(self, count: int, due_ms: Millis) -> None:
        """Removes the oldest `count` segments; at least one must be left.

        Their files are due for removal from `due_ms` on.
        """
        retired = self._segments[:count]
        del self._segments[:count]
        self._retire(retired, due_ms, self._segments[0].base_offset)

    def replace(self, replaced: range, cleaned: SwapFiles, due_ms: Millis) -> None:
        """Replaces inactive segments by a cleaned one. The old files are due for removal from `due_ms` on."""
        old = self._segments[replaced.start : replaced.stop]
        assert old[-1] is not self.active, "the active segment is never cleaned"
        new = Segment(
            self.directory,
            cleaned.base_offset,
            self.settings,
            created_ms=old[-1].created_ms,
            size_bytes=cleaned.size_bytes,
        )
        self._removals += [(due_ms, path) for segment in old for path in segment.retire()]
        cleaned.take_place()
        self._segments[replaced.start : replaced.stop] = [new]
        for segment in old[1:]:
            (self.directory / file_name(segment.base_offset, SNAPSHOT_SUFFIX)).unlink(missing_ok=True)

    def find_cut(self, offset: Offset) -> Cut:
        """Returns the cut for a truncation to `offset`, which must be below the log end offset.

        The new end is where a start would find it: at the end of the last batch below `offset`, or at the base offset
        of a segment without such a batch. So it is below `offset` if that lies within a batch, or in a gap.
        """
        segments = self._segments
        if offset < segments[0].base_offset:
            return Cut(offset, 0, None)
        index = self.index_of(offset)
        segment = segments[index]
        found = find_batch(segment, offset) if segment.size_bytes else None
        position = segment.size_bytes if found is None else found.position
        return Cut(end_before(segment, position), index, position)

    def cut_at(self, cut: Cut, now_ms: Millis) -> Offset:
        """Removes everything after the cut, which must have just been found. Returns the new log end offset."""
        segments = self._segments
        end, index, position = cut
        # Snapshots guarantee the batches below them, but other batches will be there. So the snapshots are durably
        # removed first.
        stale = [path for path in self.snapshots() if (parse_offset(path.name) or 0) > end]
        for path in stale:
            path.unlink()
        if stale:
            sync_directory(self.directory)
        if position is None:
            self._forget_deletions()
            new = Segment.create(self.directory, end, self.settings, created_ms=now_ms)
            retired = segments[:]
            segments[:] = [new]
        else:
            retired = segments[index + 1 :]
            del segments[index + 1 :]
            segments[index].truncate(position, end)
        self.active = segments[-1]
        self._retire(retired, now_ms)
        return end

    def _forget_deletions(self) -> None:
        """Removes the log files of segments that were deleted at the beginning. Their names contain a log start offset,
        which a start would believe."""
        for path in self.directory.iterdir():
            if deleted_to(path.name) is not None:
                path.unlink(missing_ok=True)

    def restart_at(self, offset: Offset, now_ms: Millis) -> None:
        """Replaces all segments by an empty one at `offset`."""
        for path in self.snapshots():
            path.unlink()
        sync_directory(self.directory)
        retired, self._segments[:] = self._segments[:], []
        self._retire(retired, now_ms)
        self.add(offset, now_ms)

    def snapshots(self) -> list[Path]:
        """Returns the producer snapshots, oldest first."""
        return sorted(self.directory.glob(f"*{SNAPSHOT_SUFFIX}"))

    def _retire(self, segments: Sequence[Segment], due_ms: Millis, log_start_offset: Offset | None = None) -> None:
        for segment in segments:
            self._removals += [(due_ms, path) for path in segment.retire(log_start_offset)]
            (self.directory / file_name(segment.base_offset, SNAPSHOT_SUFFIX)).unlink(missing_ok=True)

    def take_removals(self, now_ms: Millis) -> list[Path]:
        """Returns the files that are due for removal; the caller removes them."""
        due = [path for due_ms, path in self._removals if due_ms <= now_ms]
        if due:
            self._removals = [removal for removal in self._removals if removal[0] > now_ms]
        return due

    def close(self) -> None:
        """Closes all files."""
        for segment in self._segments:
            segment.close()

    def move_to(self, directory: Path) -> None:
        """Updates the paths after the folder was renamed."""
        self.directory = directory
        for segment in self._segments:
            segment.move_to(directory)


def _base_offset_of(segment: Segment) -> int:
    return segment.base_offset
