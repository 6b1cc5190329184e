"""What the gate takes a part of: tests that hold the recordings to Apache Kafka, rather than klamm to the recordings.

They can only fail when a recording changes or Kafka does, and each needs a broker in a JVM. `make test` runs all of
them; where CI is set, each commit takes another part.
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
    """All of them, or where CI is set about one in so many, chosen by the commit and the files' names."""
    if not os.environ.get("CI"):
        return list(paths)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    turn = int(found.stdout[:8], 16) % parts if found.returncode == 0 else 0
    return [path for path in paths if crc32(path.name.encode()) % parts == turn]
