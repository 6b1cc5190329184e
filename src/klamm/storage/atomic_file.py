"""Writes files that exist either completely or not at all, even after a power failure.

Only the user that runs the broker may read its files: records, offsets and ids are as confidential as the topics. The
umask may restrict access further. Existing files and folders keep their mode.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["FILE_MODE", "FOLDER_MODE", "sync_directory", "sync_file", "write_atomically", "write_file"]

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


def write_atomically(path: Path, content: bytes | bytearray, *, sync: bool = True) -> None:
    """Replaces the file's content. A reader finds the old file or the new one.

    With `sync` the content is on the disk before the name is; the name is durable once the folder is synced. Raises
    OSError.
    """
    temporary = path.with_name(path.name + ".tmp")
    # An existing file may be left over from a failed sync: the system may treat its unwritten pages as clean.
    temporary.unlink(missing_ok=True)
    write_file(temporary, content, sync=sync)
    os.replace(temporary, path)


def write_file(path: Path, content: bytes | bytearray, *, sync: bool = False) -> None:
    """Writes a file, which may be incomplete after a failure. Raises OSError."""
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
    """Makes the names in the folder durable. Raises OSError."""
    sync_file(path)


def sync_file(path: Path) -> None:
    """Makes the content of the file (or the names in the folder) durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
