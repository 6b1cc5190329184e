"""Files that are there as a whole or not at all, whenever the power goes.

Only the user that the broker runs as may read what it stores: records, offsets and ids are as confidential as topics
are. The umask may take more away. Files and folders that exist keep the mode that they have.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["FILE_MODE", "FOLDER_MODE", "sync_directory", "sync_file", "write_atomically", "write_file"]

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


def write_atomically(path: Path, content: bytes | bytearray, *, sync: bool = True) -> None:
    """Replaces the file by one of that content; a reader finds the old one or the new one.

    With `sync` the content is on the disk before the name is; the name is once the folder is synced. Raises OSError.
    """
    temporary = path.with_name(path.name + ".tmp")
    # One that is there may be of an attempt whose sync failed: the system may take its pages for written.
    temporary.unlink(missing_ok=True)
    write_file(temporary, content, sync=sync)
    os.replace(temporary, path)


def write_file(path: Path, content: bytes | bytearray, *, sync: bool = False) -> None:
    """Makes a file of that content, which may be there in part after a failure. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Makes names in the folder last. Raises OSError."""
    sync_file(path)


def sync_file(path: Path) -> None:
    """Makes the content of the file (or the names in the folder) last. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
