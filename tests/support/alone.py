"""A lock between test processes, for files and folders that they share."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["alone"]


@contextmanager
def alone(purpose: str) -> Iterator[None]:
    """Holds the lock for `purpose`, and first waits until no other process holds it."""
    path = Path(tempfile.gettempdir()) / f"klamm-tests-{purpose}.lock"
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
