"""One process at a time: for what the test processes set up in a place that they share."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["alone"]


@contextmanager
def alone(purpose: str) -> Iterator[None]:
    """Waits until no other process is in here with the same purpose."""
    path = Path(tempfile.gettempdir()) / f"klamm-tests-{purpose}.lock"
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
