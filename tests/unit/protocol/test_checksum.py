"""CRC-32C, however it was loaded."""

from __future__ import annotations

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.checksum import crc32c


def test_known_values() -> None:
    """The check value of CRC-32C, and the 32 zero bytes of RFC 3720."""
    assert crc32c(b"123456789", 0) == 0xE3069283
    assert crc32c(bytes(32), 0) == 0x8A9136AA


@given(head=st.binary(), tail=st.binary())
def test_checksum_goes_on_where_it_stopped(head: bytes, tail: bytes) -> None:
    """Data in two parts has the checksum of the whole, which is the package's too."""
    assert crc32c(memoryview(tail), crc32c(head, 0)) == crc32c(head + tail, 0) == package.crc32c(head + tail)
