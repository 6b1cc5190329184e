"""The rules for every input: only declared errors, and memory in proportion to the input's real size, not to a size
that it claims."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from typing import NamedTuple

__all__ = ["Target", "TooMuchMemory"]


class TooMuchMemory(Exception):
    """An input took more memory than its size allows."""


class Target(NamedTuple):
    """A reader of bytes from outside."""

    name: str
    read: Callable[[bytes], None]
    """Reads an input; handles declared errors and raises only for a bug."""
    seeds: Callable[[], Iterable[bytes]]
    """Valid inputs, from which a fuzzer starts."""
    bytes_at_most: int
    """Memory that any input may use, in bytes."""
    bytes_per_byte: int
    """Additional memory for each byte of the input."""

    def check(self, data: bytes) -> None:
        """Raises the errors of `read`, and `TooMuchMemory`.

        The first input of a kind compiles its codec, which takes memory once. So an input that uses too much memory is
        read again.
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
