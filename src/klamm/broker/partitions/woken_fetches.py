"""Reads for the Fetch requests that an append has woken, some in each iteration of the event loop.

Thousands of consumers may wait for the same partition. If all of them were answered in one iteration, no other request
would be handled until the last one has its answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["WokenFetches"]

_READ_AT_ONCE: Final = 32
"""Number of requests that read in one iteration of the loop: one to two milliseconds."""


class WokenFetches:
    """The Fetch requests of one broker that read again soon, in the order in which they were woken."""

    def __init__(self) -> None:
        self._reads: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def add(self, read: Callable[[], None]) -> None:
        """Calls `read` in one of the next iterations of the loop."""
        self._reads.append(read)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._read_some)

    def _read_some(self) -> None:
        try:
            for _ in range(min(_READ_AT_ONCE, len(self._reads))):
                self._reads.popleft()()
        finally:  # an error in one request must not keep the others waiting
            self._is_scheduled = bool(self._reads)
            if self._is_scheduled:
                asyncio.get_running_loop().call_soon(self._read_some)
