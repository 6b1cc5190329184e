"""Confluent's wire format: a byte 0, the schema's id in four bytes, for Protobuf the message's place, then the record.

Source: Confluent's documentation of the wire format; confluent-kafka's `schema_registry/common/serde.py`.
"""

from __future__ import annotations

from typing import Final

from klamm.pipelines.decoders.python_decoding import BadRecord

__all__ = ["HEADER_BYTES", "split_header", "split_message_indexes"]

HEADER_BYTES: Final = 5
_MAGIC: Final = 0
_MOST_INDEXES: Final = 100
_LONGEST_VARINT: Final = 5


def split_header(value: bytes) -> tuple[int, bytes]:
    """Returns the schema's id and the bytes after the header. Raises `BadRecord`."""
    if len(value) < HEADER_BYTES:
        raise BadRecord(f"the value has {len(value)} bytes, too few for a schema id")
    if value[0] != _MAGIC:
        raise BadRecord(f"the value begins with the byte {value[0]}, not with 0 and a schema id")
    return int.from_bytes(value[1:HEADER_BYTES], "big"), value[HEADER_BYTES:]


def split_message_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Returns the place of a Protobuf message in its file, and the bytes of the message. Raises `BadRecord`.

    The place has one index for each level of nesting; no index at all stands for the first message.
    """
    count, position = _varint(data, 0)
    if count == 0:
        return (0,), data[position:]
    if not 0 < count <= _MOST_INDEXES:
        raise BadRecord(f"the value has a place of {count} levels for its message")
    indexes = []
    for _ in range(count):
        index, position = _varint(data, position)
        indexes.append(index)
    return tuple(indexes), data[position:]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns a zigzag varint and the position after it."""
    number = 0
    for length in range(_LONGEST_VARINT):
        if position + length >= len(data):
            break
        byte = data[position + length]
        number |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + length + 1
    raise BadRecord("the value ends before the place of its message does")
