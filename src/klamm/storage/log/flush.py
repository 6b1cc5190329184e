"""A flush of a log: the files to sync are gathered on the event loop's thread and synced on any thread.

The order is that of `log_sync`: batches, indexes, small files, the folder; then the recovery point moves. Recovery
after a crash never reads below the recovery point.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from klamm.storage.atomic_file import sync_file
from klamm.storage.segment.segment import Segment

__all__ = ["Flush"]


class Flush:
    """One flush of a log up to an offset. `run` may be called on any thread, once.

    It holds its own descriptors, so segments may be closed or deleted meanwhile.
    """

    __slots__ = ("_descriptors", "_done", "_failed", "_files", "_folders", "_may_begin", "_turn", "_writes")

    def __init__(
        self,
        segments: Sequence[Segment],
        *,
        files: Sequence[Path],
        writes: Sequence[Callable[[], None]],
        folders: Sequence[Path],
        turn: Lock,
        may_begin: Callable[[], bool],
        done: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """Opens the segments. `files` and `folders` are synced by their paths; `writes` are called in between.

        `turn` is held by one flush of the log at a time. `may_begin` is called once this flush holds it. Raises OSError
        if a segment can't be opened.
        """
        self._files = files
        self._folders = folders
        self._writes = writes
        self._turn = turn
        self._may_begin = may_begin
        self._done = done
        self._failed = failed
        self._descriptors: list[int] = []
        try:
            for segment in segments:
                self._descriptors.append(os.dup(segment.descriptor))
        except OSError:
            self._close()
            raise

    def run(self) -> None:
        """Syncs everything and reports the result to the log. Never raises.

        After a failed sync it is unknown what is on the disk, and a second sync may report success for pages that were
        dropped. Therefore a failure is final, also for a flush that runs at the same time.
        """
        try:
            with self._turn:
                if self._may_begin():
                    self._sync()
        finally:
            self._close()

    def _sync(self) -> None:
        try:
            for descriptor in self._descriptors:
                os.fdatasync(descriptor)
            for path in self._files:
                _sync_if_there(path)
            for write in self._writes:
                write()
            for path in self._folders:
                _sync_if_there(path)
        except OSError as error:
            self._failed(f"it can't be synced: {error}")
        else:
            self._done()

    def _close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


def _sync_if_there(path: Path) -> None:
    """Syncs a file that may meanwhile have been deleted, or renamed to be deleted."""
    with suppress(FileNotFoundError):
        sync_file(path)
