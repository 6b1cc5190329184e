"""Encodes and decodes all messages of the schema.

The first use of a (message, version) compiles its encoder or decoder, which takes about a millisecond. After that a
call costs little more than its calls of `struct`.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from klamm.protocol.compile_decoder import Decoder, compile_decoder, contains_records
from klamm.protocol.compile_encoder import Encoder, compile_encoder
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import NEW, Message, UnsupportedField, UnsupportedVersion

__all__ = [
    "NEW",
    "Message",
    "UnsupportedField",
    "UnsupportedVersion",
    "check_version",
    "decode",
    "encode",
    "encode_into",
    "malformed",
    "unsupported",
]

AnyMessage = TypeVar("AnyMessage", bound=Message)

_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], tuple[Decoder, bool]] = {}


def encode(message: Message, version: int) -> bytes:
    """Encodes a message in one version, without a header.

    Raises UnsupportedField if a field that is not ignorable has a value that this version can't carry (null, or any
    value in a version without the field, or a number or text that is too large), and UnsupportedVersion.
    """
    encoder = _encoders.get((type(message), version)) or _add_encoder(type(message), version)
    parts: list[bytes | memoryview] = []
    try:
        encoder(message, parts.append)
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise unsupported(message, version, error) from error
    return b"".join(parts)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Appends what `encode` returns to `out`; nothing is appended when it raises."""
    out += encode(message, version)


def decode(cls: type[AnyMessage], version: int, data: bytes | memoryview, offset: int = 0) -> tuple[AnyMessage, int]:
    """Decodes the message at `offset`, and returns it with the offset after it.

    `records` fields are views of `data`; all other data is copied. A message without `records` is decoded from a copy
    of the whole memoryview, so pass a view of one message, not of a file. Unknown tagged fields are skipped. Raises
    MalformedMessage if the bytes are not such a message, and UnsupportedVersion.
    """
    decoder, wants_view = _decoders.get((cls, version)) or _add_decoder(cls, version)
    try:
        if wants_view:
            message, end = decoder(memoryview(data), offset, len(data))
        elif isinstance(data, bytes):
            message, end = decoder(data, offset, len(data))
        else:
            copied = bytes(data[offset:])
            message, end = decoder(copied, 0, len(copied))
            end += offset
    except (MalformedMessage, IndexError, struct.error, UnicodeDecodeError) as error:
        raise malformed(cls, version, error) from None
    return message, end  # type: ignore[return-value]  # the decoder of a class makes that class


def malformed(cls: type[Message], version: int, error: Exception) -> MalformedMessage:
    """Returns the error for an exception of a compiled decoder."""
    match error:
        case MalformedMessage():
            reason = str(error)
        case UnicodeDecodeError():
            reason = f"text that is not UTF-8: {error.reason}"
        case _:
            reason = "ends in the middle of a field"
    return MalformedMessage(f"{cls.__name__} version {version}: {reason}")


def unsupported(message: Message, version: int, error: Exception) -> UnsupportedField:
    """Returns the error for an exception of a compiled encoder, raised for a value that the version can't carry."""
    return UnsupportedField(f"{type(message).__name__} version {version}: {error}")


def check_version(cls: type[Message], version: int) -> None:
    """Raises UnsupportedVersion for a version that the message does not have."""
    low, high = cls.VERSIONS
    if not low <= version <= high:
        raise UnsupportedVersion(f"{cls.__name__} has versions {low} to {high}, not {version}")


def _add_encoder(cls: type[Message], version: int) -> Encoder:
    check_version(cls, version)
    encoder = _encoders[cls, version] = compile_encoder(cls, version)
    return encoder


def _add_decoder(cls: type[Message], version: int) -> tuple[Decoder, bool]:
    check_version(cls, version)
    entry = _decoders[cls, version] = (compile_decoder(cls, version), contains_records(cls, version))
    return entry
