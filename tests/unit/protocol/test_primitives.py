"""Tests strings and element counts outside the hot path."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.primitives import (
    check_count,
    encode_compact_nullable_string,
    encode_compact_string,
    encode_nullable_string,
    encode_string,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
Read = Callable[[memoryview, int], tuple[str | None, int]]


@given(text=texts)
def test_strings_are_read_back(text: str) -> None:
    """Every form of a string is read back, together with the position after it."""
    for encoded, read in (
        (encode_string(text), read_string),
        (encode_nullable_string(text), read_nullable_string),
        (encode_compact_string(text), read_compact_string),
        (encode_compact_nullable_string(text), read_compact_nullable_string),
    ):
        assert read(memoryview(b"." + encoded + b"rest"), 1) == (text, 1 + len(encoded))


def test_null_is_read_where_it_may_stand() -> None:
    """Null is read as None in the nullable forms, and is malformed in the other forms."""
    fixed, compact = memoryview(encode_nullable_string(None)), memoryview(encode_compact_nullable_string(None))
    assert read_nullable_string(fixed, 0) == (None, 2)
    assert read_compact_nullable_string(compact, 0) == (None, 1)
    with pytest.raises(MalformedMessage):
        read_string(fixed, 0)
    with pytest.raises(MalformedMessage):
        read_compact_string(compact, 0)


@pytest.mark.parametrize("read", [read_string, read_nullable_string])
def test_string_beyond_the_message_is_malformed(read: Read) -> None:
    """A length that exceeds the remaining bytes is malformed; a length that is cut itself raises struct.error."""
    with pytest.raises(MalformedMessage):
        read(memoryview(b"\x7f\xffabc"), 0)
    with pytest.raises(struct.error):
        read(memoryview(b"\x00"), 0)


@pytest.mark.parametrize("read", [read_compact_string, read_compact_nullable_string])
def test_compact_string_beyond_the_message_is_malformed(read: Read) -> None:
    """A compact length that exceeds the remaining bytes is malformed; a varint that is cut raises IndexError."""
    with pytest.raises(MalformedMessage):
        read(memoryview(b"\xff\xff\xff\xff\x0fabc"), 0)
    with pytest.raises(IndexError):
        read(memoryview(b"\xff"), 0)


@pytest.mark.parametrize("count", [-1, 4, 2**31 - 1])
def test_count_must_fit_the_bytes(count: int) -> None:
    """A count is malformed if it is negative or if the remaining bytes cannot hold that many elements."""
    view = memoryview(bytes(13))
    check_count(0, view, 13, 4)
    check_count(3, view, 1, 4)
    with pytest.raises(MalformedMessage):
        check_count(count, view, 1, 4)
