"""Batches that go from a segment to a socket with `sendfile`, without a copy in the memory of the process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.protocol.types import Offset
    from klamm.storage.segment.segment import Segment

__all__ = ["StoredBatches"]


class StoredBatches:
    """Whole batches in a segment. Valid until the log changes: the caller sends or reads them in the same step."""

    __slots__ = ("_on_failure", "_position", "_segment", "_size_bytes", "next_offset")

    def __init__(
        self, segment: Segment, position: int, size_bytes: int, next_offset: Offset, on_failure: Callable[[], None]
    ) -> None:
        self.next_offset = next_offset
        """The offset at which the next read continues."""
        self._segment = segment
        self._position = position
        self._size_bytes = size_bytes
        self._on_failure = on_failure

    def __len__(self) -> int:
        return self._size_bytes

    def send(self, socket_descriptor: int, start: int, size_bytes: int) -> int:
        """Sends up to `size_bytes` bytes, starting `start` bytes after the beginning of the first batch. Returns their
        number.

        Raises BlockingIOError if the socket is full, ConnectionError if the client has closed it, OSError if the file
        can't be read.
        """
        descriptor = self._segment.descriptor
        sent = os.sendfile(socket_descriptor, descriptor, self._position + start, min(size_bytes, len(self) - start))
        if not sent:
            raise OSError(f"{self._segment.path} ends before position {self._position + len(self)}")
        return sent

    def read(self, start: int = 0) -> bytes:
        """Returns the bytes from `start` on. Raises OSError."""
        size_bytes = len(self) - start
        data = os.pread(self._segment.descriptor, size_bytes, self._position + start)
        if len(data) < size_bytes:
            raise OSError(f"{self._segment.path} ends before position {self._position + len(self)}")
        return data

    def failed(self) -> None:
        """Reports that the file could not be read, so that later reads from the log return the reason."""
        self._on_failure()
