"""The lock that allows only one broker per data directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from klamm.errors import KlammError
from klamm.storage.atomic_file import FILE_MODE

__all__ = ["LOCK_FILE", "DataDirectoryInUse", "FileLock"]

LOCK_FILE: Final = ".lock"


class DataDirectoryInUse(KlammError):
    """A broker has locked the folder."""


class FileLock:
    """Holds `.lock` in a folder until `release`, or until the process ends.

    It takes two kinds of lock: flock, which also keeps out a second broker of the same process, and the lock of Java's
    FileChannel, so that Apache Kafka and klamm keep each other out.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, directory: Path) -> None:
        """Takes the lock. Raises `DataDirectoryInUse`, OSError."""
        self._descriptor: int | None = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            if isinstance(error, BlockingIOError | PermissionError):
                raise DataDirectoryInUse(
                    f"the data directory {directory} is in use by a broker: stop it first"
                ) from error
            raise

    def release(self) -> None:
        """Releases the lock. A second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
