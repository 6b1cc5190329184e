"""Selects the tests of which the gate runs only a part for each commit, because they can seldom fail or cost much.

`make test` runs all of them; if CI is set, each commit runs another part. These are comparisons of recordings with
Apache Kafka, which can fail only when a recording or Kafka changes; bugs that are planted to test the simulator; the
largest requests of each API; the longest tests of clusters; workers on Apache Kafka; and tests of Spark.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar
from zlib import crc32

__all__ = ["is_in_share_of_gate", "share_of_gate"]

T = TypeVar("T")

_ROOT = Path(__file__).resolve().parents[2]


def share_of_gate(items: Iterable[T], parts: int, name: Callable[[T], str] = str) -> list[T]:
    """Returns all items; if CI is set, about one in `parts`, chosen by the commit and the names of the items."""
    return [item for item in items if is_in_share_of_gate(name(item), parts)]


def is_in_share_of_gate(name: str, parts: int) -> bool:
    """Returns true; if CI is set, true for about one name in `parts`, which the commit chooses."""
    return not os.environ.get("CI") or crc32(name.encode()) % parts == _turn() % parts


@cache
def _turn() -> int:
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    return int(found.stdout[:8], 16) if found.returncode == 0 else 0
