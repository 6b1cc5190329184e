"""What of a log is on the disk for sure, and what has to be synced to make it more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from klamm.protocol.types import Offset
from klamm.storage.flush import Flush
from klamm.storage.segments import Segments

__all__ = ["LogSync"]

logger = logging.getLogger(__name__)


class LogSync:
    """Keeps the recovery point of one log: everything below it outlasts a power failure."""

    __slots__ = ("_files", "_folders", "_truncations", "recovery_point")

    def __init__(self, recovery_point: Offset, folders: Sequence[Path] = ()) -> None:
        """`folders` have names in them that are not synced yet."""
        self.recovery_point = recovery_point
        self._files: list[Path] = []
        self._folders = list(folders)
        self._truncations = 0

    @property
    def has_new_names(self) -> bool:
        """Whether files were made that a folder may not know of after a power failure."""
        return bool(self._folders)

    def made_file(self, path: Path, *, with_content: bool) -> None:
        """Takes note of a new file; with `with_content` it is synced by its name."""
        if with_content:
            self._files.append(path)
        if path.parent not in self._folders:
            self._folders.append(path.parent)

    def forget_above(self, offset: Offset) -> Offset:
        """The log was cut at `offset`, which is returned; flushes under way no longer say anything about it."""
        self._truncations += 1
        self.recovery_point = min(self.recovery_point, offset)
        return offset

    def prepare(
        self,
        segments: Segments,
        log_end_offset: Offset,
        *,
        before: Callable[[], None] | None,
        failed: Callable[[str], None],
        is_last: bool = False,
    ) -> Flush | None:
        """What makes the log last up to its end; None if the disk does not even let it be gathered.

        An index that can't be written holds the recovery point back. That of the active segment can wait until the
        roll, or until the log is closed (`is_last`): recovery always builds that one anew.
        """
        up_to_offset = log_end_offset
        unsynced = []
        files = list(self._files)
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
        try:
            flush = Flush(
                unsynced,
                files=files,
                folders=self._folders,
                before=before,
                done=partial(self._done, up_to_offset, self._truncations),
                failed=failed,
            )
        except OSError as error:
            logger.warning("%s can't be opened to be synced: %s", segments[-1].path, error)
            return None
        self._files = []
        self._folders = []
        return flush

    def _done(self, offset: Offset, truncations: int) -> None:
        if truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, offset)
