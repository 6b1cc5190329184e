"""Runs asynchronous tests without a pytest plugin."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["in_loop"]


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Converts an asynchronous test to a normal test, which runs on its own event loop."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(test(*arguments, **fixtures))

    return run
