"""Ranges of offsets as bytes, relative to a position: as lengths of runs, or as one bit for each offset.

A record that is slow while many others finish gives few long runs. Keys of similar speed finish in a random order,
which gives many short runs: then one bit for each offset is shorter. The writer takes the shorter form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from klamm.protocol.types import Offset

__all__ = [
    "MalformedRanges",
    "OffsetRange",
    "append_varint",
    "count_offsets",
    "read_ranges",
    "read_varint",
    "write_ranges",
]

OffsetRange: TypeAlias = tuple[Offset, Offset]
"""The first offset, and the offset behind the last one."""

_RUNS: Final = 0
_BITS: Final = 1
_RUN_OF_ONES: Final = re.compile("1+")
_LONGEST_VARINT: Final = 10


class MalformedRanges(ValueError):
    """The bytes are not what `write_ranges` returns."""


def write_ranges(position: Offset, ranges: Sequence[OffsetRange]) -> bytes:
    """Returns the bytes of ranges that are in order, do not touch each other, and lie above the position."""
    if not ranges:
        return b""
    runs = bytearray([_RUNS])
    end: int = position
    for first, last in ranges:
        append_varint(runs, first - end)
        append_varint(runs, last - first)
        end = last
    bits_size = 1 + (end - position + 7) // 8
    return bytes(runs) if len(runs) <= bits_size else _bits(position, ranges)


def _bits(position: Offset, ranges: Iterable[OffsetRange]) -> bytes:
    digits = []
    end: int = position
    for first, last in ranges:
        digits.append("0" * (first - end) + "1" * (last - first))
        end = last
    number = int("".join(digits)[::-1], 2)
    return bytes([_BITS]) + number.to_bytes((end - position + 7) // 8, "little")


def read_ranges(position: Offset, data: bytes) -> tuple[OffsetRange, ...]:
    """Returns the ranges. Raises MalformedRanges."""
    if not data:
        return ()
    if data[0] == _BITS:
        digits = f"{int.from_bytes(data[1:], 'little'):b}"[::-1]
        return tuple(
            (Offset(position + run.start()), Offset(position + run.end())) for run in _RUN_OF_ONES.finditer(digits)
        )
    if data[0] != _RUNS:
        raise MalformedRanges(f"unknown form of ranges: {data[0]}")
    return tuple(_read_runs(position, data))


def count_offsets(data: bytes) -> int:
    """Returns how many offsets the ranges contain. Raises MalformedRanges."""
    if data[:1] == bytes([_BITS]):
        return int.from_bytes(data[1:], "little").bit_count()
    return sum(end - first for first, end in read_ranges(Offset(0), data))


def _read_runs(position: Offset, data: bytes) -> Iterator[OffsetRange]:
    at, end = 1, int(position)
    while at < len(data):
        gap, at = read_varint(data, at)
        length, at = read_varint(data, at)
        if not gap or not length:
            raise MalformedRanges("an empty range, or two ranges that touch")
        yield Offset(end + gap), Offset(end + gap + length)
        end += gap + length


def append_varint(data: bytearray, value: int) -> None:
    """Appends a number that is not negative: seven bits in each byte, the lowest first."""
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number at the position, and the position behind the number. Raises MalformedRanges."""
    value = 0
    for count, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, at + count + 1
    raise MalformedRanges("a number without an end")
