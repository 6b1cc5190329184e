"""Tests variable-length integers against kio's, and tagged fields."""

from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.serial import writers
from kio.static.primitive import i32, i64, u32, uvarint

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.varint import (
    encode_unsigned_varint,
    encode_varint,
    read_tagged_fields,
    read_unsigned_varint,
    read_varint,
    read_varlong,
    skip_tagged_fields,
)


@given(number=st.integers(0, 2**32 - 1))
@example(0)
@example(127)
@example(128)
@example(16_383)
@example(16_384)
@example(2**32 - 1)
def test_unsigned(number: int) -> None:
    """An unsigned number is written as kio writes it and read back."""
    buffer = io.BytesIO()
    writers.write_unsigned_varint(buffer, uvarint(number))
    encoded = encode_unsigned_varint(number)
    assert encoded == buffer.getvalue()
    assert read_unsigned_varint(b"." + encoded, 1) == (number, 1 + len(encoded))


@given(number=st.integers(-(2**31), 2**31 - 1))
@example(-1)
@example(-64)
@example(63)
@example(64)
@example(-(2**31))
@example(2**31 - 1)
def test_signed(number: int) -> None:
    """A signed number is written as kio writes it and read back."""
    buffer = io.BytesIO()
    writers.write_signed_varint(buffer, i32(number))
    encoded = encode_varint(number)
    assert encoded == buffer.getvalue()
    assert read_varint(b"." + encoded, 1) == (number, 1 + len(encoded))


@given(number=st.integers(-(2**63), 2**63 - 1))
@example(-(2**63))
@example(2**63 - 1)
def test_long(number: int) -> None:
    """A signed number of 64 bits is written as kio writes it and read back."""
    buffer = io.BytesIO()
    writers.write_signed_varlong(buffer, i64(number))
    encoded = encode_varint(number)
    assert encoded == buffer.getvalue()
    assert read_varlong(b"." + encoded, 1) == (number, 1 + len(encoded))


def test_more_bytes_than_needed_are_read() -> None:
    """A number that is padded up to the longest form of its type is read, as in Java."""
    assert read_unsigned_varint(b"\x81\x80\x80\x80\x00", 0) == (1, 5)
    assert read_varlong(b"\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00", 0) == (1, 10)


@given(data=st.binary(max_size=12))
def test_any_bytes_are_a_number_or_refused(data: bytes) -> None:
    """Any bytes give a number within the type's range, or raise MalformedMessage or IndexError."""
    for read, low, high in (
        (read_unsigned_varint, 0, u32.__high__),
        (read_varint, i32.__low__, i32.__high__),
        (read_varlong, i64.__low__, i64.__high__),
    ):
        try:
            number, end = read(data, 0)
        except (MalformedMessage, IndexError):
            continue
        assert low <= number <= high
        assert end <= len(data)


def test_varint_of_six_bytes_is_malformed() -> None:
    """A varint of 32 bits takes at most five bytes, and one of 64 bits at most ten; a longer one is malformed."""
    with pytest.raises(MalformedMessage):
        read_unsigned_varint(b"\x80\x80\x80\x80\x80\x01", 0)
    with pytest.raises(MalformedMessage):
        read_varlong(b"\x80" * 10 + b"\x01", 0)


def test_tagged_fields_are_read_and_skipped() -> None:
    """Reading tagged fields gives their tags, their bytes and the position after them; skipping gives the position."""
    view = memoryview(b"." + b"\x02\x00\x02ab\x81\x01\x00" + b"rest")
    fields, position = read_tagged_fields(view, 1)
    assert [(tag, bytes(field)) for tag, field in fields] == [(0, b"ab"), (129, b"")]
    assert bytes(view[position:]) == b"rest"
    assert skip_tagged_fields(view, 1) == position
    assert skip_tagged_fields(memoryview(b"\x00"), 0) == 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\xff\xff\x0f" + bytes(20), id="count"),
        pytest.param(b"\x01\x00\x7f" + bytes(20), id="size"),
        pytest.param(b"\x03\x00\x00\x00\x00", id="fewer fields than claimed"),
    ],
)
def test_tagged_fields_that_lie_are_malformed(data: bytes) -> None:
    """Tagged fields whose count or sizes exceed the remaining bytes are malformed."""
    with pytest.raises(MalformedMessage):
        skip_tagged_fields(memoryview(data), 0)
