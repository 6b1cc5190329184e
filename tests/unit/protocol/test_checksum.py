"""Tests CRC-32C with the implementation that is loaded."""

from __future__ import annotations

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.checksum import crc32c


def test_known_values() -> None:
    """CRC-32C gives its published check value, and the value of RFC 3720 for 32 zero bytes."""
    assert crc32c(b"123456789", 0) == 0xE3069283
    assert crc32c(bytes(32), 0) == 0x8A9136AA


@given(head=st.binary(), tail=st.binary())
def test_checksum_goes_on_where_it_stopped(head: bytes, tail: bytes) -> None:
    """Data in two parts has the checksum of the whole data, which equals that of the crc32c package."""
    assert crc32c(memoryview(tail), crc32c(head, 0)) == crc32c(head + tail, 0) == package.crc32c(head + tail)
