"""Removes the parts of interrupted metadata changes in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from klamm.protocol.errors import KafkaError

__all__ = ["PartSweeper"]

_logger = logging.getLogger(__name__)


class PartSweeper:
    """A sweep at a time. A change of another broker that is in progress is decided again if a sweep removes its
    parts."""

    def __init__(self, remove: Callable[[], Awaitable[int]]) -> None:
        """Takes a function that removes some parts in one transaction, and returns their number."""
        self.task: asyncio.Task[None] | None = None
        """The sweep in progress."""
        self._remove = remove

    def start(self) -> None:
        """Begins a sweep, unless one is in progress, which also removes what is left now."""
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._sweep(), name="metadata-sweep")

    def stop(self) -> None:
        """Ends the sweep in progress."""
        if self.task is not None:
            self.task.cancel()

    async def _sweep(self) -> None:
        try:
            while await self._remove():
                pass
        except KafkaError as error:
            _logger.warning("parts of interrupted metadata changes could not be removed: %s", error)
        finally:
            self.task = None
