"""Files that are there as a whole or not at all, whenever the power goes."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync_directory", "sync_file", "write_atomically"]


def write_atomically(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Replaces the file by one of that content; a reader finds the old one or the new one.

    With `sync` the content is on the disk before the name is; the name is once the folder is synced. Raises OSError.
    """
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)


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
