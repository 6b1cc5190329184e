"""Cached functions to pack and unpack arrays of numbers, by length: most arrays are as short as a list of replicas."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Any, Final

__all__ = ["ArrayStructs", "packers", "unpackers"]

_LONGEST_KEPT: Final = 64


class ArrayStructs(dict[int, Callable[..., Any]]):
    """A method of `Struct` for each array length of one struct code. Methods for long arrays are not cached."""

    __slots__ = ("code", "method")

    def __init__(self, code: str, method: str) -> None:
        super().__init__()
        self.code = code
        self.method = method

    def __missing__(self, length: int) -> Callable[..., Any]:
        made: Callable[..., Any] = getattr(Struct(f">{length}{self.code}"), self.method)
        if length <= _LONGEST_KEPT:
            self[length] = made
        return made


@cache
def packers(code: str) -> ArrayStructs:
    """Returns the functions that pack arrays, by length: numbers → bytes."""
    return ArrayStructs(code, "pack")


@cache
def unpackers(code: str) -> ArrayStructs:
    """Returns the functions that unpack arrays, by length: (buffer, position) → tuple of numbers."""
    return ArrayStructs(code, "unpack_from")
