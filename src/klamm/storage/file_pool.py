"""A bound on the files that logs hold open: a thousand idle partitions need no thousand file descriptors."""

from __future__ import annotations

import resource
from collections import deque
from typing import Final, Protocol

__all__ = ["FilePool", "PooledFile", "default_open_files"]

_FEWEST: Final = 64
_MOST: Final = 16_384


class PooledFile(Protocol):
    """Something that holds a file open while it is used and can open it again."""

    used: bool
    """Set by its owner at every use, cleared by the pool: who was not used for a round is closed."""

    def release(self) -> None:
        """Closes the file."""


class FilePool:
    """At most `limit` open files; the one to close is found as a clock finds a page (second chance)."""

    __slots__ = ("_limit", "_open")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: deque[PooledFile] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, file: PooledFile) -> None:
        """Takes in a file that was opened just now, and closes one that was not used for long if there are too many."""
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
        """Forgets a file that its owner closed."""
        try:
            self._open.remove(file)
        except ValueError:
            return


def default_open_files() -> int:
    """Half of the descriptors that the process may have; the other half is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _MOST if soft == resource.RLIM_INFINITY else soft // 2
    return max(_FEWEST, min(allowed, _MOST))
