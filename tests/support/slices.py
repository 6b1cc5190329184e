"""Work that is done in steps, for tests that want what comes of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["finish"]

T = TypeVar("T")


def finish(work: Generator[None, None, T]) -> T:
    """What comes of the work, all steps done at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
