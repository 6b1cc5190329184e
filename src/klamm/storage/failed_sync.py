"""What a partition's folder remembers of a failed sync.

After an fsync has failed, Linux takes the pages that could not be written for clean: they can be read for as long as
they are in memory, are never written again, and the next fsync reports success. A restart that read them from there
would find a sound log, acknowledge on top of it, and lose it all with the power. So a failed sync leaves a mark beside
the log, and recovery has the log read from the disk itself.

A process that is killed while it waits for a failing disk has no time to leave the mark. So after any stop that was not
a clean one, what had not been synced is read from the disk as well.

Source: "Can Applications Recover from fsync Failures?" (USENIX ATC 2020); the log's own rule, Kafka stops instead.
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

logger = logging.getLogger(__name__)

FAILED_SYNC_FILE: Final = ".failed-sync"


def note_failed_sync(directory: Path) -> None:
    """Leaves the mark, as far as the disk still takes one; raises nothing."""
    path = directory / FAILED_SYNC_FILE
    try:
        path.touch()
        sync_file(path)
        sync_file(directory)
    except OSError as error:
        logger.error("%s can't be marked for a check of what is really on its disk: %s", directory, error)


def has_failed_sync(directory: Path) -> bool:
    """Whether there is a mark."""
    return (directory / FAILED_SYNC_FILE).exists()


def forget_all_cached_pages(directory: Path) -> None:
    """Makes the next read of each log file one from the disk.

    Raises OSError when the files can't be synced now either: nobody knows then what is on the disk.
    """
    for path in directory.glob(f"*{LOG_SUFFIX}"):
        with _opened(path) as descriptor:
            os.fsync(descriptor)  # only clean pages can be forgotten
            _forget_clean_pages(descriptor)


def forget_unsynced_cached_pages(directory: Path, recovery_point: Offset) -> None:
    """Makes the next read of what was not known to be synced one from the disk, as far as Linux takes it for written.

    Pages that it knows it has still to write stay in memory: the next sync tells the truth of them. Raises OSError.
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
    with suppress(AttributeError):  # where there is no such call, nothing is cached that way
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def forget_failed_sync(directory: Path) -> None:
    """Removes the mark, once the log was read and found sound. Raises OSError."""
    (directory / FAILED_SYNC_FILE).unlink(missing_ok=True)
