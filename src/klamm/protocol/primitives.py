"""Strings and counts as they stand in a message, for what the hot codecs don't read in line.

A string has a length of two bytes, a compact one (KIP-482) a varint of its length + 1; null is -1, or 0 when compact.
Bytes that are no UTF-8 become U+FFFD, as in Java. All raise `MalformedMessage`, and IndexError or struct.error where
the data ends within a length.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.varint import encode_unsigned_varint, read_unsigned_varint

__all__ = [
    "LONGEST_STRING",
    "check_count",
    "encode_compact_nullable_error_message",
    "encode_compact_nullable_string",
    "encode_compact_string",
    "encode_error_message",
    "encode_nullable_error_message",
    "encode_nullable_string",
    "encode_string",
    "read_compact_nullable_string",
    "read_compact_string",
    "read_nullable_string",
    "read_string",
]

LONGEST_STRING: Final = 32_767
"""Bytes; in the compact form, too."""
_INT16: Final = Struct(">h")


def check_count(count: int, view: memoryview, position: int, minimum_bytes: int) -> None:
    """Refuses an array that claims more elements than the bytes from `position` on can hold, or fewer than none."""
    remaining = len(view) - position
    if not 0 <= count <= remaining // minimum_bytes:
        raise MalformedMessage(f"an array of {count} elements in {remaining} bytes")


def read_nullable_string(view: memoryview, position: int) -> tuple[str | None, int]:
    """The string at `position`, or None for null, and the position after it."""
    (length,) = _INT16.unpack_from(view, position)
    position += 2
    if length < 0:
        return None, position
    return _read_text(view, position, position + length)


def read_string(view: memoryview, position: int) -> tuple[str, int]:
    """The string at `position`, which must not be null, and the position after it."""
    (length,) = _INT16.unpack_from(view, position)
    if length < 0:
        raise MalformedMessage("null where a string must be")
    return _read_text(view, position + 2, position + 2 + length)


def read_compact_nullable_string(view: memoryview, position: int) -> tuple[str | None, int]:
    """The compact string at `position`, or None for null, and the position after it."""
    length, position = read_unsigned_varint(view, position)
    if not length:
        return None, position
    return _read_text(view, position, position + length - 1)


def read_compact_string(view: memoryview, position: int) -> tuple[str, int]:
    """The compact string at `position`, which must not be null, and the position after it."""
    length = view[position]
    position += 1
    if length >= 0x80:
        length, position = read_unsigned_varint(view, position - 1)
    if not length:
        raise MalformedMessage("null where a string must be")
    return _read_text(view, position, position + length - 1)


def _read_text(view: memoryview, position: int, end: int) -> tuple[str, int]:
    if end > len(view):
        raise MalformedMessage(f"a string of {end - position} bytes in {len(view) - position} bytes")
    return str(view[position:end], "utf-8", "replace"), end


def encode_string(text: str) -> bytes:
    """A string and its length."""
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def encode_nullable_string(text: str | None) -> bytes:
    """A string and its length, or null."""
    return b"\xff\xff" if text is None else encode_string(text)


def encode_error_message(text: str) -> bytes:
    """The bytes of an error message, without a length, and no more of them than a string may have.

    A message may show what a client sent; whether it can be sent back must not depend on that.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > LONGEST_STRING:
        encoded = encoded[:LONGEST_STRING].decode("utf-8", "ignore").encode()
    return encoded


def encode_nullable_error_message(text: str | None) -> bytes:
    """An error message and its length, or null."""
    if text is None:
        return b"\xff\xff"
    encoded = encode_error_message(text)
    return _INT16.pack(len(encoded)) + encoded


def encode_compact_nullable_error_message(text: str | None) -> bytes:
    """An error message and its compact length, or null."""
    if text is None:
        return b"\x00"
    encoded = encode_error_message(text)
    return encode_unsigned_varint(len(encoded) + 1) + encoded


def encode_compact_string(text: str) -> bytes:
    """A compact string and its length."""
    encoded = text.encode()
    return encode_unsigned_varint(len(encoded) + 1) + encoded


def encode_compact_nullable_string(text: str | None) -> bytes:
    """A compact string and its length, or null."""
    return b"\x00" if text is None else encode_compact_string(text)
