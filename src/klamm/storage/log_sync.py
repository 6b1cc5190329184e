"""What of a log is on the disk for sure, and what has to be synced to make it more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock

from klamm.protocol.types import Offset
from klamm.storage.flush import Flush
from klamm.storage.segments import Segments

__all__ = ["LogSync"]

logger = logging.getLogger(__name__)


class LogSync:
    """Keeps two offsets of one log: up to where a power failure takes nothing, and the recovery point.

    `synced_offset`: every record below it outlasts a power failure. `recovery_point`, never above it: recovery need not
    look at what is below, since the indexes are on the disk as well. Flushes run one after the other, on any thread;
    whatever one of them has to sync, the next one syncs too until one of them has done it.
    """

    __slots__ = (
        "_before",
        "_files",
        "_folders",
        "_has_failed",
        "_indexed_offset",
        "_lock",
        "_number",
        "_rolls",
        "_truncations",
        "_turn",
        "recovery_point",
        "synced_offset",
    )

    def __init__(self, recovery_point: Offset, folders: Sequence[Path] = ()) -> None:
        """`folders` have names in them that are not synced yet."""
        self.recovery_point = recovery_point
        self.synced_offset = recovery_point
        self._indexed_offset = recovery_point
        self._number = 0
        self._before: tuple[int, Callable[[], None]] | None = None
        # What is to be synced by its name, with the number of the request for it.
        self._files: dict[Path, int] = {}
        self._folders = dict.fromkeys(folders, 0)
        self._truncations = 0
        self._rolls = 0
        self._has_failed = False
        self._turn = Lock()
        self._lock = Lock()

    def recovery_point_to_checkpoint(self, log_end_offset: Offset) -> Offset:
        """The recovery point, as a start may be told of it.

        One that is the log's end may come to be where the next segment begins, and then a start would rely on the
        indexes of the one before, which are not synced before it is rolled. So it stays within that segment, unless it
        is where the log ended when it was opened.
        """
        if self.recovery_point == log_end_offset > self._indexed_offset:
            return Offset(log_end_offset - 1)
        return self.recovery_point

    @property
    def has_new_names(self) -> bool:
        """Whether files were made that a folder may not know of after a power failure."""
        return bool(self._folders)

    def made_file(self, path: Path, *, with_content: bool) -> None:
        """Takes note of a new file; with `with_content` it is synced by its name."""
        with self._lock:
            self._number += 1
            if with_content:
                self._files[path] = self._number
            self._folders[path.parent] = self._number

    def call_before(self, write: Callable[[], None]) -> None:
        """Has the next flush call `write`, which makes a file of the folder anew, ahead of syncing the folder."""
        with self._lock:
            self._number += 1
            self._before = self._number, write

    def rolled(self, base_offset: Offset) -> None:
        """A new segment begins there: the indexes of the one before must be synced before recovery may rely on them.

        A flush of the active segment leaves them out. So the recovery point, if it got to the end of the segment with
        such a flush, stays within it until another flush; also if that flush is still under way.
        """
        with self._lock:
            self._rolls += 1
            self.recovery_point = min(self.recovery_point, Offset(base_offset - 1))

    def forget_above(self, offset: Offset) -> Offset:
        """The log was cut at `offset`, which is returned; flushes under way no longer say anything about it."""
        with self._lock:
            self._truncations += 1
            self.recovery_point = min(self.recovery_point, offset)
            self.synced_offset = min(self.synced_offset, offset)
            self._indexed_offset = min(self._indexed_offset, Offset(offset - 1))
        return offset

    def prepare(
        self, segments: Segments, log_end_offset: Offset, *, failed: Callable[[str], None], is_last: bool = False
    ) -> Flush | None:
        """What makes the log last up to its end; None if the disk does not even let it be gathered.

        An index that can't be written holds the recovery point back. That of the active segment can wait until the
        roll, or until the log is closed (`is_last`): recovery always builds that one anew.
        """
        with self._lock:
            files, folders, before = list(self._files), list(self._folders), self._before
        up_to_offset = log_end_offset
        unsynced = []
        for index, segment in enumerate(segments):
            is_active = index + 1 == len(segments)
            if not is_active and segments[index + 1].base_offset <= self.recovery_point:
                continue
            unsynced.append(segment)
            if is_active and not is_last:
                continue
            try:
                segment.write_indexes()
            except OSError as error:
                logger.warning("the index of %s can't be written yet: %s", segment.path, error)
                up_to_offset = min(up_to_offset, segment.base_offset)
            else:
                files += [segment.offset_index.path, segment.time_index.path]
                if segment.transaction_index.path.exists():
                    # It may have been made just now: its name must last too, or aborted records would come back.
                    files.append(segment.transaction_index.path)
                    folders.append(segment.directory)
        try:
            return Flush(
                unsynced,
                files=files,
                folders=folders,
                before=before[1] if before is not None else None,
                turn=self._turn,
                may_begin=lambda: not self._has_failed,
                done=partial(self._done, up_to_offset, log_end_offset, self._truncations, self._rolls, self._number),
                failed=partial(self._fail, failed),
            )
        except OSError as error:
            logger.warning("%s can't be opened to be synced: %s", segments[-1].path, error)
            return None

    def _done(self, recovery_point: Offset, synced_offset: Offset, truncations: int, rolls: int, number: int) -> None:
        with self._lock:
            if rolls != self._rolls:
                recovery_point = min(recovery_point, Offset(synced_offset - 1))
            if truncations == self._truncations:
                self.recovery_point = max(self.recovery_point, recovery_point)
                self.synced_offset = max(self.synced_offset, synced_offset)
            if self._before is not None and self._before[0] <= number:
                self._before = None
            for names in (self._files, self._folders):
                for path in [path for path, asked in names.items() if asked <= number]:
                    del names[path]

    def _fail(self, failed: Callable[[str], None], reason: str) -> None:
        self._has_failed = True
        failed(reason)
