"""Batches that a reader gets straight from the file: the kernel copies them from its pages into the socket."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.storage.segment import Segment

__all__ = ["StoredBatches"]


class StoredBatches:
    """Whole batches in a segment. Good until anything else is done to the log, so they are sent at once, or read."""

    __slots__ = ("_on_failure", "_position", "_segment", "_size_bytes")

    def __init__(self, segment: Segment, position: int, size_bytes: int, on_failure: Callable[[], None]) -> None:
        self._segment = segment
        self._position = position
        self._size_bytes = size_bytes
        self._on_failure = on_failure

    def __len__(self) -> int:
        return self._size_bytes

    def send(self, socket_descriptor: int, start: int, size_bytes: int) -> int:
        """Sends so many bytes from `start` on, counted from the first batch, or as many as the socket takes.

        Raises BlockingIOError when it takes none, ConnectionError when the client has gone, OSError when the file can't
        be read.
        """
        descriptor = self._segment.descriptor
        sent = os.sendfile(socket_descriptor, descriptor, self._position + start, min(size_bytes, len(self) - start))
        if not sent:
            raise OSError(f"{self._segment.path} ends before position {self._position + len(self)}")
        return sent

    def read(self, start: int = 0) -> bytes:
        """The bytes from `start` on. Raises OSError."""
        size_bytes = len(self) - start
        data = os.pread(self._segment.descriptor, size_bytes, self._position + start)
        if len(data) < size_bytes:
            raise OSError(f"{self._segment.path} ends before position {self._position + len(self)}")
        return data

    def failed(self) -> None:
        """Says that they could not be read when they were to be sent, so that the next one who asks is told why."""
        self._on_failure()
