"""Buffers for frames that arrive in pieces.

There are two kinds. Most frames get a buffer from a pool of bounded size. It has spare room, so that a frame of a
megabyte is received with few system calls. It is reused, because a new megabyte costs the kernel 256 page faults. When
the pool is exhausted, a frame gets its own memory mapping, which is little larger than the bytes that have arrived and
grows without a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from mmap import mmap

__all__ = ["Buffer", "BufferPool", "grow_mapping", "new_mapping", "shrink_mapping"]

Buffer: TypeAlias = "bytearray | mmap"

SMALLEST_KEPT: Final = 64 * 1024


class BufferPool:
    """Lends buffers and keeps large ones between uses. Lent and kept buffers together take at most `maximum_bytes`."""

    def __init__(self, maximum_bytes: int = 16 * 1024 * 1024) -> None:
        self._maximum_bytes = maximum_bytes
        self._lent_bytes = 0
        self._kept_bytes = 0
        self._free: dict[int, list[bytearray]] = {}

    def take(self, capacity: int) -> bytearray | None:
        """Returns a buffer of at least `capacity` bytes, which may hold old bytes; None if too much is lent."""
        size = capacity if capacity < SMALLEST_KEPT else 1 << (capacity - 1).bit_length()
        if self._lent_bytes + size > self._maximum_bytes:
            return None
        self._lent_bytes += size
        free = self._free.get(size)
        if free:
            self._kept_bytes -= size
            return free.pop()
        if self._lent_bytes + self._kept_bytes > self._maximum_bytes:
            self._free.clear()
            self._kept_bytes = 0
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        """Takes back an unused buffer, and keeps it if it is large and there is room."""
        size = len(buffer)
        self._lent_bytes -= size
        if size >= SMALLEST_KEPT and self._lent_bytes + self._kept_bytes + size <= self._maximum_bytes:
            self._kept_bytes += size
            self._free.setdefault(size, []).append(buffer)


def new_mapping(capacity: int) -> Buffer:
    """Returns a mapping of `capacity` bytes. Its pages go back to the kernel with the last reference to it."""
    import mmap  # few brokers need it

    return mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def grow_mapping(mapping: Buffer, filled_bytes: int, capacity: int) -> Buffer:
    """Returns a mapping of `capacity` bytes that begins with the first `filled_bytes` of `mapping`.

    The result is the same mapping, resized. If the system can't move pages, or a view of it is in use, it is a copy.
    """
    try:
        mapping.resize(capacity)  # type: ignore[union-attr]  # never a buffer of the pool
    except (BufferError, SystemError):
        grown = new_mapping(capacity)
        memoryview(grown)[:filled_bytes] = memoryview(mapping)[:filled_bytes]
        return grown
    return mapping


def shrink_mapping(mapping: Buffer, size: int) -> bool:
    """Frees the pages of a mapping beyond `size` bytes. Returns False if the mapping cannot be resized now."""
    try:
        mapping.resize(size)  # type: ignore[union-attr]  # never a buffer of the pool
    except (BufferError, SystemError):
        return False
    return True
