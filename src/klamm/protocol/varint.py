"""Integers of variable length, and the tagged fields that use them.

Each byte has seven bits of the number, lowest first; its highest bit is set if another byte follows. Signed numbers are
zigzag: 0, -1, 1, -2 become 0, 1, 2, 3. The hot codecs read the common one-byte form inline and call this module for
longer forms.
Source: `org.apache.kafka.common.utils.ByteUtils` of Apache Kafka 4.3; tagged fields: KIP-482.
"""

from __future__ import annotations

from typing import Final

from klamm.protocol.errors import MalformedMessage

__all__ = [
    "encode_unsigned_varint",
    "encode_varint",
    "read_tagged_fields",
    "read_unsigned_varint",
    "read_varint",
    "read_varlong",
    "skip_tagged_fields",
]

_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))


def encode_unsigned_varint(number: int) -> bytes:
    """Encodes a number that is not negative."""
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_varint(number: int) -> bytes:
    """Encodes a signed number of up to 64 bits as zigzag."""
    return encode_unsigned_varint(number << 1 if number >= 0 else ~(number << 1))


def read_unsigned_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Returns the number of up to 32 bits at `position`, and the position after it.

    Raises `MalformedMessage` for more than five bytes, IndexError if the data ends first.
    """
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    number = byte & 0x7F
    shift = 7
    while True:
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFF_FFFF, position + 1
        shift += 7
        if shift > 28:
            raise MalformedMessage("a varint is longer than 5 bytes")


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Returns the zigzag number of up to 32 bits at `position`, and the position after it.

    Raises as `read_unsigned_varint`.
    """
    number, position = read_unsigned_varint(data, position)
    return (number >> 1) ^ -(number & 1), position


def read_varlong(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Returns the zigzag number of up to 64 bits at `position`, and the position after it.

    Raises `MalformedMessage` for more than ten bytes, IndexError if the data ends first.
    """
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= 0xFFFF_FFFF_FFFF_FFFF
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift > 63:
            raise MalformedMessage("a varlong is longer than 10 bytes")


def read_tagged_fields(view: memoryview, position: int) -> tuple[list[tuple[int, memoryview]], int]:
    """Returns tag and bytes of each tagged field at `position`, and the position after the fields.

    Raises as `skip_tagged_fields`.
    """
    count, position = read_unsigned_varint(view, position)
    end = len(view)
    # A field has at least a tag and a size.
    if count > (end - position) // 2:
        raise MalformedMessage(f"{count} tagged fields in {end - position} bytes")
    fields = []
    for _ in range(count):
        tag, position = read_unsigned_varint(view, position)
        size, position = read_unsigned_varint(view, position)
        field_end = position + size
        if field_end > end:
            raise MalformedMessage(f"a tagged field of {size} bytes reaches beyond the message")
        fields.append((tag, view[position:field_end]))
        position = field_end
    return fields, position


def skip_tagged_fields(view: memoryview, position: int) -> int:
    """Returns the position after the tagged fields that start at `position`.

    Raises `MalformedMessage` for a field that reaches beyond the data, IndexError if the data ends first.
    """
    return read_tagged_fields(view, position)[1] if view[position] else position + 1
