"""The order in which the files of a log are synced, and what a start may trust.

A flush and a shutdown sync a log's files in the same order. Each step begins after the one before is done:

1. the batches (`.log`),
2. the indexes (`.index`, `.timeindex`, `.txnindex`) of every inactive segment; at a shutdown also those of the active
   segment,
3. the leader epochs,
4. the producer snapshots at the ends of segments whose indexes are on the disk,
5. the names of these files in their folder,
6. the recovery point,
7. after a shutdown in which every log reached this step, the mark of a clean shutdown.

Each file therefore guarantees what comes before it in this list, and a start trusts exactly that:

- The recovery point: the batches below it are complete, and so are their leader epochs. It guarantees no indexes.
- A snapshot with a valid CRC: the same for its offset, the indexes of each segment that ends there or before, and the
  producer state up to its offset.
- The mark: every log has a snapshot at its end, and nothing above it.
- An index: nothing by itself. A start checks the indexes of all segments that end above the newest valid snapshot.
  Entries of `.index` and `.timeindex` are kept if they lead to the batches that they name. A missing entry in a
  `.txnindex` could not be detected, and aborted records would become visible: it is rebuilt from the batches. An index
  that is rebuilt below a snapshot is synced at once.

ADR 24 has the reasons.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from klamm.protocol.types import Offset
from klamm.storage.log.flush import Flush
from klamm.storage.segment.segments import Segments

__all__ = ["LogSync"]

_logger = logging.getLogger(__name__)


class _Write(NamedTuple):
    """A small file that a flush has to write, and the number of the request for it."""

    number: int
    indexed_offset: Offset
    """The indexes must be on the disk up to this offset before the file is written."""
    write: Callable[[], None]


class LogSync:
    """Keeps the recovery point of one log: the offset below which records survive a power failure.

    Flushes run one after the other, on any thread. If a flush fails, the next one also syncs the files of the failed
    one.
    """

    __slots__ = (
        "_folders",
        "_has_failed",
        "_indexed_offset",
        "_lock",
        "_number",
        "_turn",
        "_writes",
        "recovery_point",
        "truncations",
    )

    def __init__(self, recovery_point: Offset, indexed_offset: Offset, folders: Sequence[Path] = ()) -> None:
        """Starts from a loaded log.

        `indexed_offset`: the indexes of each segment that ends there or before are on the disk. `folders` hold names
        that are not synced yet.
        """
        self.recovery_point = recovery_point
        self.truncations = 0
        """The number of truncations of the log."""
        self._indexed_offset = indexed_offset
        self._number = 0
        self._writes: list[_Write] = []
        # Paths to sync, with the number of the request for each.
        self._folders = dict.fromkeys(folders, 0)
        self._has_failed = False
        self._turn = Lock()
        self._lock = Lock()

    def has_all_below(self, offset: Offset) -> bool:
        """Returns whether batches, indexes, small files and names of the log up to `offset` are on the disk."""
        return min(self.recovery_point, self._indexed_offset) >= offset and not self._folders and not self._writes

    def made_file(self, path: Path) -> None:
        """Schedules a sync of the folder, because it has a new name."""
        with self._lock:
            self._number += 1
            self._folders[path.parent] = self._number

    def write_later(self, write: Callable[[], None], *, indexed_offset: Offset = Offset(0)) -> None:  # noqa: B008 - a NewType of int
        """Schedules `write`, which rewrites and syncs a small file of the folder, before the sync of the folder.

        The next flush for which the indexes up to `indexed_offset` are on the disk calls it.
        """
        with self._lock:
            self._number += 1
            self._writes = [each for each in self._writes if each.write != write]
            self._writes.append(_Write(self._number, indexed_offset, write))

    def forget_above(self, offset: Offset) -> Offset:
        """Lowers the synced offsets of a log that is truncated to `offset`, and returns `offset`.

        Flushes in progress no longer raise the recovery point.
        """
        with self._lock:
            self.truncations += 1
            self.recovery_point = min(self.recovery_point, offset)
            self._indexed_offset = min(self._indexed_offset, offset)
            self._writes = [each for each in self._writes if each.indexed_offset <= offset]
        return offset

    def prepare(
        self, segments: Segments, log_end_offset: Offset, *, failed: Callable[[str], None], is_last: bool = False
    ) -> Flush | None:
        """Returns the flush that makes the log durable up to its end, None if a segment can't be opened.

        The indexes of the active segment wait until the roll or the close of the log (`is_last`): after a crash they
        are rebuilt. The next flush tries again to write an index that can't be written now.
        """
        with self._lock:
            number, folders, writes = self._number, list(self._folders), list(self._writes)
            is_done_below = min(self.recovery_point, self._indexed_offset)
        indexed_offset = log_end_offset
        unsynced = []
        files = []
        for index, segment in enumerate(segments):
            is_active = index + 1 == len(segments)
            if not is_active and segments[index + 1].base_offset <= is_done_below:
                continue
            unsynced.append(segment)
            if is_active and not is_last:
                indexed_offset = min(indexed_offset, segment.base_offset)
                continue
            try:
                segment.write_indexes()
            except OSError as error:
                _logger.warning("the index of %s can't be written yet: %s", segment.path, error)
                indexed_offset = min(indexed_offset, segment.base_offset)
            else:
                files += [segment.offset_index.path, segment.time_index.path]
                if segment.transaction_index.path.exists():
                    # The index file may be new. Without its name in the folder, aborted records would become visible
                    # again.
                    files.append(segment.transaction_index.path)
                    folders.append(segment.directory)
        # The leader epochs come first, with offset 0, because a snapshot guarantees them.
        writes = sorted(
            (each for each in writes if each.indexed_offset <= indexed_offset), key=lambda each: each.indexed_offset
        )
        if writes:
            folders.append(segments.directory)
        try:
            return Flush(
                unsynced,
                files=files,
                writes=[each.write for each in writes],
                folders=list(dict.fromkeys(folders)),
                turn=self._turn,
                may_begin=lambda: not self._has_failed,
                done=partial(self._done, log_end_offset, indexed_offset, writes, self.truncations, number),
                failed=partial(self._fail, failed),
            )
        except OSError as error:
            _logger.warning("%s can't be opened to be synced: %s", segments[-1].path, error)
            return None

    def _done(
        self, synced_offset: Offset, indexed_offset: Offset, writes: Sequence[_Write], truncations: int, number: int
    ) -> None:
        with self._lock:
            if truncations == self.truncations:
                self.recovery_point = max(self.recovery_point, synced_offset)
                self._indexed_offset = max(self._indexed_offset, indexed_offset)
            self._writes = [each for each in self._writes if each not in writes]
            for path in [path for path, asked in self._folders.items() if asked <= number]:
                del self._folders[path]

    def _fail(self, failed: Callable[[str], None], reason: str) -> None:
        self._has_failed = True
        failed(reason)
