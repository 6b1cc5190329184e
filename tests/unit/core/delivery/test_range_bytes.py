"""Tests of ranges of offsets as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.core.delivery.range_bytes import (
    MalformedRanges,
    OffsetRange,
    append_varint,
    count_offsets,
    read_ranges,
    read_varint,
    write_ranges,
)
from klamm.protocol.types import Offset

POSITION = Offset(1000)


def ranges_of(*lengths: int) -> list[OffsetRange]:
    """Returns ranges from lengths of gaps and ranges in turn."""
    found, end = [], int(POSITION)
    for gap, length in zip(lengths[::2], lengths[1::2], strict=True):
        found.append((Offset(end + gap), Offset(end + gap + length)))
        end += gap + length
    return found


pairs = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), max_size=60)


@given(pairs)
def test_ranges_are_read_as_they_were_written(lengths: list[tuple[int, int]]) -> None:
    """Any ranges above the position come back."""
    ranges = ranges_of(*(length for pair in lengths for length in pair))
    data = write_ranges(POSITION, ranges)
    assert list(read_ranges(POSITION, data)) == ranges
    assert count_offsets(data) == sum(end - first for first, end in ranges)


def test_the_shorter_form_is_written() -> None:
    """One long range takes a few bytes, however long it is; many short ranges take one bit for each offset."""
    assert len(write_ranges(POSITION, ranges_of(1, 1_000_000))) == 5
    assert len(write_ranges(POSITION, ranges_of(*[1] * 800))) == 101
    assert write_ranges(POSITION, []) == b""


@pytest.mark.parametrize("data", [b"\x02", b"\x00\x01", b"\x00\x00\x01", b"\x00\x01\x00", b"\x00" + b"\xff" * 11])
def test_other_bytes_are_malformed(data: bytes) -> None:
    """Unknown forms, missing numbers, empty ranges, ranges that touch, and numbers without an end are refused."""
    with pytest.raises(MalformedRanges):
        read_ranges(POSITION, data)


@given(st.integers(0, 1 << 63))
def test_numbers_are_read_as_they_were_written(number: int) -> None:
    """A number comes back with the position behind it."""
    data = bytearray(b"x")
    append_varint(data, number)
    assert read_varint(bytes(data), 1) == (number, len(data))
