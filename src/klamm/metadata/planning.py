"""Runs decisions about metadata in steps."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from time import monotonic
from typing import Final, TypeVar

__all__ = ["in_steps"]

T = TypeVar("T")

_STEP_S: Final = 0.002
"""Longest time to decide a change before other tasks run."""


async def in_steps(planning: Generator[None, None, T]) -> T:
    """Runs the planning and returns its result. Lets other tasks run meanwhile, because there may be much to decide."""
    ends = monotonic() + _STEP_S
    while True:
        try:
            next(planning)
        except StopIteration as end:
            result: T = end.value
            return result
        if monotonic() >= ends:
            await asyncio.sleep(0)
            ends = monotonic() + _STEP_S
