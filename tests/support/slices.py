"""Runs work in steps for tests that need only the result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["finish"]

T = TypeVar("T")


def finish(work: Generator[None, None, T]) -> T:
    """Runs all steps at once and returns the result of the work."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
