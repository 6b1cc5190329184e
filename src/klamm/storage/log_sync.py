"""What of a log is on the disk for sure, and what has to be synced to make it more.

A log's files reach the disk in one order, in a flush as at a stop. Each step begins when the one before is done:

1. the batches (`.log`),
2. the indexes (`.index`, `.timeindex`, `.txnindex`) of every segment that is not written any more; at a stop those of
   the last segment as well,
3. the leader epochs,
4. the snapshots of the producers, where a segment ends whose indexes are on the disk,
5. the names of these files in their folder,
6. the recovery point,
7. after a stop in which every log came this far, the mark of a clean stop.

So a file vouches for what comes before it in this list, and a start believes exactly that:

- The recovery point: the batches below it are there and whole, and so are their leader epochs. It says nothing of
  indexes.
- A snapshot whose CRC is right: the same of its offset, the indexes of each segment that ends there or before, and what
  producers had written up to there.
- The mark: every log has a snapshot at its end, and there is nothing above it.
- An index: nothing of its own. A start looks at the indexes of all segments that end above the newest good snapshot.
  Entries of `.index` and `.timeindex` are kept if they lead to the batches that they name. In a `.txnindex` a missing
  entry would not show, and aborted records would be visible: it is built anew from the batches. What is built anew
  below a snapshot is synced at once.

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
from klamm.storage.flush import Flush
from klamm.storage.segments import Segments

__all__ = ["LogSync"]

logger = logging.getLogger(__name__)


class _Write(NamedTuple):
    """A small file that a flush has to write, and the number of the request for it."""

    number: int
    indexed_offset: Offset
    """The indexes must be on the disk up to there before it is written."""
    write: Callable[[], None]


class LogSync:
    """Keeps the recovery point of one log: up to where a power failure takes nothing.

    Flushes run one after the other, on any thread; whatever one of them has to sync, the next one syncs too until one
    of them has done it.
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
        """`indexed_offset`: the indexes of each segment that ends there or before are on the disk. `folders` have names
        in them that are not synced yet."""
        self.recovery_point = recovery_point
        self.truncations = 0
        """How often the log was cut."""
        self._indexed_offset = indexed_offset
        self._number = 0
        self._writes: list[_Write] = []
        # What is to be synced by its name, with the number of the request for it.
        self._folders = dict.fromkeys(folders, 0)
        self._has_failed = False
        self._turn = Lock()
        self._lock = Lock()

    def has_all_below(self, offset: Offset) -> bool:
        """Whether all that belongs to the log up to there is on the disk: batches, indexes, small files and names."""
        return min(self.recovery_point, self._indexed_offset) >= offset and not self._folders and not self._writes

    def made_file(self, path: Path) -> None:
        """Takes note of a new name in a folder."""
        with self._lock:
            self._number += 1
            self._folders[path.parent] = self._number

    def write_later(self, write: Callable[[], None], *, indexed_offset: Offset = Offset(0)) -> None:  # noqa: B008 - a NewType of int
        """Has a flush call `write`, which makes a small file of the folder anew and syncs it, ahead of syncing the
        folder: the next flush that finds or brings the indexes up to `indexed_offset` to the disk."""
        with self._lock:
            self._number += 1
            self._writes = [each for each in self._writes if each.write != write]
            self._writes.append(_Write(self._number, indexed_offset, write))

    def forget_above(self, offset: Offset) -> Offset:
        """The log is cut at `offset`, which is returned; flushes under way no longer say anything about it."""
        with self._lock:
            self.truncations += 1
            self.recovery_point = min(self.recovery_point, offset)
            self._indexed_offset = min(self._indexed_offset, offset)
            self._writes = [each for each in self._writes if each.indexed_offset <= offset]
        return offset

    def prepare(
        self, segments: Segments, log_end_offset: Offset, *, failed: Callable[[str], None], is_last: bool = False
    ) -> Flush | None:
        """What makes the log last up to its end; None if the disk does not even let it be gathered.

        The indexes of the active segment wait until the roll, or until the log is closed (`is_last`): after a crash
        they are built anew. An index that can't be written is tried again by the next flush.
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
                logger.warning("the index of %s can't be written yet: %s", segment.path, error)
                indexed_offset = min(indexed_offset, segment.base_offset)
            else:
                files += [segment.offset_index.path, segment.time_index.path]
                if segment.transaction_index.path.exists():
                    # It may have been made just now: its name must last too, or aborted records would come back.
                    files.append(segment.transaction_index.path)
                    folders.append(segment.directory)
        # The leader epochs first, which have 0 there: a snapshot vouches for them.
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
            logger.warning("%s can't be opened to be synced: %s", segments[-1].path, error)
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
