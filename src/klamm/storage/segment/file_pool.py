"""Limits the number of files that logs keep open, so that many idle partitions do not use up the file descriptors."""

from __future__ import annotations

import resource
from collections import deque
from typing import Final, Protocol

__all__ = ["FilePool", "PooledFile", "default_open_files"]

_FEWEST: Final = 64
_MOST: Final = 16_384


class PooledFile(Protocol):
    """Something that keeps a file open while it is used, and can open it again."""

    used: bool
    """Set by its owner at every use, cleared by the pool. A file that was not used for one round is closed."""

    def release(self) -> None:
        """Closes the file."""


class FilePool:
    """At most `limit` open files. The file to close is chosen by the clock algorithm (second chance)."""

    __slots__ = ("_limit", "_open")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: deque[PooledFile] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, file: PooledFile) -> None:
        """Adds a file that was just opened. If there are too many, closes one that was not used recently."""
        files = self._open
        while len(files) >= self._limit:
            candidate = files.popleft()
            if candidate.used:
                candidate.used = False
                files.append(candidate)
            else:
                candidate.release()
        files.append(file)

    def closed(self, file: PooledFile) -> None:
        """Removes a file that its owner closed."""
        try:
            self._open.remove(file)
        except ValueError:
            return


def default_open_files() -> int:
    """Returns half of the file descriptors that the process may have; the other half is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _MOST if soft == resource.RLIM_INFINITY else soft // 2
    return max(_FEWEST, min(allowed, _MOST))
