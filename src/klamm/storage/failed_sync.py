"""What a partition's folder remembers of a failed sync.

After an fsync has failed, Linux takes the pages that could not be written for clean: they can be read for as long as
they are in memory, are never written again, and the next fsync reports success. A restart that read them from there
would find a sound log, acknowledge on top of it, and lose it all with the power. So a failed sync leaves a mark beside
the log, and recovery has the log read from the disk itself.

Source: "Can Applications Recover from fsync Failures?" (USENIX ATC 2020); the log's own rule, Kafka stops instead.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from klamm.storage.atomic_file import sync_file
from klamm.storage.log_files import LOG_SUFFIX

__all__ = ["FAILED_SYNC_FILE", "forget_cached_pages", "forget_failed_sync", "note_failed_sync"]

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


def forget_cached_pages(directory: Path) -> bool:
    """Whether there is a mark; if so, what of the log files is only in memory is forgotten before they are read.

    Raises OSError when they can't be synced now either: nobody knows then what is on the disk.
    """
    if not (directory / FAILED_SYNC_FILE).exists():
        return False
    for path in directory.glob(f"*{LOG_SUFFIX}"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)  # only clean pages can be forgotten
            with suppress(AttributeError):  # where there is no such call, nothing is cached that way
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return True


def forget_failed_sync(directory: Path) -> None:
    """Removes the mark, once the log was read and found sound. Raises OSError."""
    (directory / FAILED_SYNC_FILE).unlink(missing_ok=True)
