"""Buffers for frames that arrive in pieces, used again instead of allocated anew."""

from __future__ import annotations

from typing import Final

__all__ = ["BufferPool"]

SMALLEST_KEPT: Final = 64 * 1024


class BufferPool:
    """Keeps a bounded number of large buffers between uses: a fresh megabyte costs the kernel 256 page faults."""

    def __init__(self, maximum_bytes: int = 16 * 1024 * 1024) -> None:
        self._maximum_bytes = maximum_bytes
        self._kept_bytes = 0
        self._free: dict[int, list[bytearray]] = {}

    def take(self, capacity: int) -> bytearray:
        """Returns a buffer of at least `capacity` bytes; what it holds is left over from another use."""
        if capacity < SMALLEST_KEPT:
            return bytearray(capacity)
        size = 1 << (capacity - 1).bit_length()
        free = self._free.get(size)
        if free:
            self._kept_bytes -= size
            return free.pop()
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        """Takes a buffer that nobody uses any more, and keeps it if there is room."""
        size = len(buffer)
        if size >= SMALLEST_KEPT and size & (size - 1) == 0 and self._kept_bytes + size <= self._maximum_bytes:
            self._kept_bytes += size
            self._free.setdefault(size, []).append(buffer)
