"""Selects the tests that compare recordings with Apache Kafka, of which each commit runs only a part.

These tests can fail only when a recording or Kafka changes, and each test needs a broker in a JVM. `make test` runs all
of them; if CI is set, each commit runs another part.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar
from zlib import crc32

__all__ = ["share_of_gate"]

T = TypeVar("T", bound=Path)

_ROOT = Path(__file__).resolve().parents[2]


def share_of_gate(paths: Sequence[T], parts: int) -> list[T]:
    """Returns all paths; if CI is set, about one in `parts`, chosen by the commit and the file names."""
    if not os.environ.get("CI"):
        return list(paths)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    turn = int(found.stdout[:8], 16) % parts if found.returncode == 0 else 0
    return [path for path in paths if crc32(path.name.encode()) % parts == turn]
