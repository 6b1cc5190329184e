"""What every input must leave true: declared errors only, and memory by what it is, not by what it claims to be."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from typing import NamedTuple

__all__ = ["Target", "TooMuchMemory"]


class TooMuchMemory(Exception):
    """An input took more memory than its size allows."""


class Target(NamedTuple):
    """One reader of bytes from outside."""

    name: str
    read: Callable[[bytes], None]
    """Raises for a mistake of ours only: declared errors are its own business."""
    seeds: Callable[[], Iterable[bytes]]
    """Inputs that are read to the end, for a fuzzer to begin with."""
    bytes_at_most: int
    """Memory that may be taken however small the input is."""
    bytes_per_byte: int
    """Memory that may be taken for each byte of the input besides."""

    def check(self, data: bytes) -> None:
        """Raises whatever `read` does, and `TooMuchMemory`.

        The first input of a kind has its codec compiled, which is done once and is not the input's doing. So one that
        takes too much is read again.
        """
        if not tracemalloc.is_tracing():
            tracemalloc.start(1)
        allowed = self.bytes_at_most + self.bytes_per_byte * len(data)
        taken = self._taken_by(data)
        if taken > allowed:
            taken = self._taken_by(data)
        if taken > allowed:
            raise TooMuchMemory(f"{self.name}: {taken} bytes for an input of {len(data)}, {allowed} are allowed")

    def _taken_by(self, data: bytes) -> int:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        self.read(data)
        _, peak = tracemalloc.get_traced_memory()
        return peak - before
