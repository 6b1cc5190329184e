"""The mark of a failed sync in a partition's folder.

After a failed fsync, Linux treats the pages that could not be written as clean: they can be read while they are in
memory, are never written again, and the next fsync reports success. A restart that read these pages from memory would
find an intact log, append to it, acknowledge the records, and lose all of them in a power failure. Therefore a failed
sync leaves a mark in the folder, and recovery reads the log from the disk itself.

A process that is killed while it waits for a failing disk has no time to leave the mark. Therefore recovery reads
unsynced data from the disk after any unclean shutdown.

Source: "Can Applications Recover from fsync Failures?" (USENIX ATC 2020). The rule is klamm's own; Kafka stops instead.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from klamm.protocol.types import Offset
from klamm.storage.atomic_file import sync_file
from klamm.storage.log_files import LOG_SUFFIX, parse_offset

__all__ = [
    "FAILED_SYNC_FILE",
    "forget_all_cached_pages",
    "forget_failed_sync",
    "forget_unsynced_cached_pages",
    "has_failed_sync",
    "note_failed_sync",
]

_logger = logging.getLogger(__name__)

FAILED_SYNC_FILE: Final = ".failed-sync"


def note_failed_sync(directory: Path) -> None:
    """Creates the mark if the disk still allows it. Never raises."""
    path = directory / FAILED_SYNC_FILE
    try:
        path.touch()
        sync_file(path)
        sync_file(directory)
    except OSError as error:
        _logger.error("the failed sync of %s can't be marked for the next start: %s", directory, error)


def has_failed_sync(directory: Path) -> bool:
    """Returns whether the folder has the mark."""
    return (directory / FAILED_SYNC_FILE).exists()


def forget_all_cached_pages(directory: Path) -> None:
    """Drops the cached pages of all log files, so that the next read comes from the disk.

    Raises OSError if the files can't be synced now either: then it is unknown what is on the disk.
    """
    for path in directory.glob(f"*{LOG_SUFFIX}"):
        with _opened(path) as descriptor:
            os.fsync(descriptor)  # only clean pages can be forgotten
            _forget_clean_pages(descriptor)


def forget_unsynced_cached_pages(directory: Path, recovery_point: Offset) -> None:
    """Drops the cached clean pages of log files that reach above the recovery point: the next read comes from the disk.

    Pages that Linux still has to write stay in memory: the next sync reports whether that succeeds. Raises OSError.
    """
    paths = {
        offset: path for path in directory.glob(f"*{LOG_SUFFIX}") if (offset := parse_offset(path.name)) is not None
    }
    first = max((offset for offset in paths if offset <= recovery_point), default=0)
    for offset, path in paths.items():
        if offset >= first:
            with _opened(path) as descriptor:
                _forget_clean_pages(descriptor)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _forget_clean_pages(descriptor: int) -> None:
    with suppress(AttributeError):  # systems without this call don't cache that way
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def forget_failed_sync(directory: Path) -> None:
    """Removes the mark after the log was read and found intact. Raises OSError."""
    (directory / FAILED_SYNC_FILE).unlink(missing_ok=True)
