"""Strings and counts in messages, for the cases that the hot codecs don't read inline.

A string has a length of two bytes, a compact string (KIP-482) a varint of its length + 1; null is -1, or 0 if compact.
Invalid UTF-8 becomes U+FFFD, as in Java. All readers raise `MalformedMessage`, and IndexError or struct.error if the
data ends within a length.
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
"""Limit in bytes, also for the compact form."""
_INT16: Final = Struct(">h")


def check_count(count: int, view: memoryview, position: int, minimum_bytes: int) -> None:
    """Refuses an array with a negative count, or with more elements than fit into the bytes from `position`."""
    remaining = len(view) - position
    if not 0 <= count <= remaining // minimum_bytes:
        raise MalformedMessage(f"an array of {count} elements in {remaining} bytes")


def read_nullable_string(view: memoryview, position: int) -> tuple[str | None, int]:
    """Returns the string at `position`, or None for null, and the position after it."""
    (length,) = _INT16.unpack_from(view, position)
    position += 2
    if length < 0:
        return None, position
    return _read_text(view, position, position + length)


def read_string(view: memoryview, position: int) -> tuple[str, int]:
    """Returns the string at `position`, which must not be null, and the position after it."""
    (length,) = _INT16.unpack_from(view, position)
    if length < 0:
        raise MalformedMessage("null where a string must be")
    return _read_text(view, position + 2, position + 2 + length)


def read_compact_nullable_string(view: memoryview, position: int) -> tuple[str | None, int]:
    """Returns the compact string at `position`, or None for null, and the position after it."""
    length, position = read_unsigned_varint(view, position)
    if not length:
        return None, position
    return _read_text(view, position, position + length - 1)


def read_compact_string(view: memoryview, position: int) -> tuple[str, int]:
    """Returns the compact string at `position`, which must not be null, and the position after it."""
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
    """Encodes a string with its length."""
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def encode_nullable_string(text: str | None) -> bytes:
    """Encodes a string with its length, or null."""
    return b"\xff\xff" if text is None else encode_string(text)


def encode_error_message(text: str) -> bytes:
    """Encodes an error message without a length, cut to the limit of a string.

    The message may quote the client's input, which may be too long or invalid. The response must be encodable anyway.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > LONGEST_STRING:
        encoded = encoded[:LONGEST_STRING].decode("utf-8", "ignore").encode()
    return encoded


def encode_nullable_error_message(text: str | None) -> bytes:
    """Encodes an error message with its length, or null."""
    if text is None:
        return b"\xff\xff"
    encoded = encode_error_message(text)
    return _INT16.pack(len(encoded)) + encoded


def encode_compact_nullable_error_message(text: str | None) -> bytes:
    """Encodes an error message with its compact length, or null."""
    if text is None:
        return b"\x00"
    encoded = encode_error_message(text)
    return encode_unsigned_varint(len(encoded) + 1) + encoded


def encode_compact_string(text: str) -> bytes:
    """Encodes a compact string with its length."""
    encoded = text.encode()
    return encode_unsigned_varint(len(encoded) + 1) + encoded


def encode_compact_nullable_string(text: str | None) -> bytes:
    """Encodes a compact string with its length, or null."""
    return b"\x00" if text is None else encode_compact_string(text)
