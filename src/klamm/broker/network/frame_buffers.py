"""Buffers for frames that arrive in pieces.

Two kinds. Most frames get one from a pool of bounded size: it has room to spare, so that a frame of a megabyte is
received with few system calls, and it is used again, since a fresh megabyte costs the kernel 256 page faults. When the
pool is lent out, a frame gets a mapping of its own, which holds little more than what has arrived and grows without
being copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from mmap import mmap

__all__ = ["Buffer", "BufferPool", "grow_mapping", "new_mapping", "shrink_mapping"]

Buffer: TypeAlias = "bytearray | mmap"

SMALLEST_KEPT: Final = 64 * 1024


class BufferPool:
    """Lends buffers, and keeps large ones between uses: both together take no more than `maximum_bytes`."""

    def __init__(self, maximum_bytes: int = 16 * 1024 * 1024) -> None:
        self._maximum_bytes = maximum_bytes
        self._lent_bytes = 0
        self._kept_bytes = 0
        self._free: dict[int, list[bytearray]] = {}

    def take(self, capacity: int) -> bytearray | None:
        """Returns a buffer of at least `capacity` bytes, with bytes of another use in it; None if too much is lent."""
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
        """Takes back a buffer that is no longer used, and keeps it if it is large and there is room."""
        size = len(buffer)
        self._lent_bytes -= size
        if size >= SMALLEST_KEPT and self._lent_bytes + self._kept_bytes + size <= self._maximum_bytes:
            self._kept_bytes += size
            self._free.setdefault(size, []).append(buffer)


def new_mapping(capacity: int) -> Buffer:
    """Returns pages of `capacity` bytes that go back to the kernel with the last reference to them."""
    import mmap  # few brokers need it

    return mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def grow_mapping(mapping: Buffer, filled_bytes: int, capacity: int) -> Buffer:
    """Returns a mapping of `capacity` bytes that begins with the first `filled_bytes` of `mapping`.

    It is the same one where the system can move pages; where it can't, or while a view of it is in use, a copy.
    """
    try:
        mapping.resize(capacity)  # type: ignore[union-attr]  # a pool's buffer does not get here
    except (BufferError, SystemError):
        grown = new_mapping(capacity)
        memoryview(grown)[:filled_bytes] = memoryview(mapping)[:filled_bytes]
        return grown
    return mapping


def shrink_mapping(mapping: Buffer, size: int) -> bool:
    """Gives back what a mapping has beyond `size` bytes. False if that is not possible here or now."""
    try:
        mapping.resize(size)  # type: ignore[union-attr]  # a pool's buffer does not get here
    except (BufferError, SystemError):
        return False
    return True
