"""Decoding and encoding of messages that may be large, a little at a time.

The codecs are those of `codec`, with the same results and the same errors. Who drives the generators says how long a
step lasts: each one stops at least once a millisecond.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from sys import getrefcount
from typing import Final, TypeAlias, TypeVar

from klamm.protocol.codec import check_version, malformed, unsupported
from klamm.protocol.compile_decoder import MAXIMUM_ELEMENTS, DecoderInSteps, compile_decoder_in_steps
from klamm.protocol.compile_encoder import EncoderInSteps, compile_encoder_in_steps
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message, fields_of, struct_class

__all__ = ["MAXIMUM_ELEMENTS", "decode_in_steps", "dismantle", "encode_in_steps"]

AnyMessage = TypeVar("AnyMessage", bound=Message)

Arrays: TypeAlias = "tuple[tuple[str, Arrays], ...]"

CHUNK_BYTES: Final = 64 * 1024
"""What is encoded is joined when there is so much of it. A part that is as large by itself is not copied."""
FREED_AT_ONCE: Final = 256


def decode_in_steps(
    cls: type[AnyMessage], version: int, view: memoryview, offset: int = 0
) -> Generator[AnyMessage, None, AnyMessage]:
    """Returns the message at `offset` of a view, which must stay as it is until then; all is copied out.

    Each step yields the message as far as it has been read. Raises MalformedMessage, also for arrays with more than
    `MAXIMUM_ELEMENTS` elements together, and UnsupportedVersion.
    """
    message = None
    try:
        for message in _decoder(cls, version)(view, offset, len(view)):
            yield message  # type: ignore[misc]  # the decoder of a class makes that class
    except (MalformedMessage, IndexError, struct.error, UnicodeDecodeError) as error:
        raise malformed(cls, version, error) from None
    assert message is not None
    return message  # type: ignore[return-value]


def encode_in_steps(message: Message, version: int) -> Generator[None, None, list[bytes | memoryview]]:
    """Returns the bytes of a message in one version, in parts. Raises UnsupportedField and UnsupportedVersion."""
    chunks: list[bytes | memoryview] = []
    parts: list[bytes | memoryview] = []
    try:
        encoder, may_be_large = _encoder(type(message), version)
        for _ in encoder(message, parts.append):
            if may_be_large and max(map(len, parts), default=0) >= CHUNK_BYTES:
                chunks += parts
            elif chunks and len(chunks[-1]) < CHUNK_BYTES:
                chunks[-1] = b"".join((chunks[-1], *parts))
            else:
                chunks.append(b"".join(parts))
            parts.clear()
            yield
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise unsupported(message, version, error) from error
    return chunks


def dismantle(message: Message) -> Generator[None, None, None]:
    """Frees a message that its caller needs no more, array by array, since to free a large one at once takes long.

    What somebody else refers to stays as it is.
    """
    if getrefcount(message) <= _ALONE:
        yield from _dismantle_arrays(message)


def _dismantle_arrays(message: Message) -> Generator[None, None, None]:
    for name, inner in _arrays(type(message)):
        items = getattr(message, name, None)
        if getrefcount(items) > _ALONE + 1:
            continue
        while items:
            if inner:
                for _ in range(min(FREED_AT_ONCE, len(items))):
                    item = items.pop()
                    is_large = any(len(getattr(item, each) or ()) > FREED_AT_ONCE for each, _ in inner)
                    if is_large and getrefcount(item) <= _ALONE:
                        yield from _dismantle_arrays(item)
            else:
                del items[-FREED_AT_ONCE:]
            yield


def _references_of_an_argument(argument: object) -> int:
    return getrefcount(argument)


_ALONE: Final = _references_of_an_argument(object())
"""What `getrefcount` says of an argument that nobody else refers to: it differs between versions of Python."""


_arrays_of: dict[type[Message], Arrays] = {}
_decoders: dict[tuple[type[Message], int], DecoderInSteps] = {}
_encoders: dict[tuple[type[Message], int], tuple[EncoderInSteps, bool]] = {}
"""Each with whether a single value may be large: strings never are."""


def _arrays(cls: type[Message]) -> Arrays:
    """The names of the arrays in a struct, each with those in its elements."""
    found = _arrays_of.get(cls)
    if found is None:
        found = _arrays_of[cls] = tuple(
            (field.name, _arrays(struct_class(cls, field.element)) if field.is_struct else ())
            for field in fields_of(cls)
            if field.is_array
        )
    return found


def _decoder(cls: type[Message], version: int) -> DecoderInSteps:
    decoder = _decoders.get((cls, version))
    if decoder is None:
        check_version(cls, version)
        decoder = _decoders[cls, version] = compile_decoder_in_steps(cls, version)
    return decoder


def _encoder(cls: type[Message], version: int) -> tuple[EncoderInSteps, bool]:
    entry = _encoders.get((cls, version))
    if entry is None:
        check_version(cls, version)
        entry = _encoders[cls, version] = (compile_encoder_in_steps(cls, version), _contains_bytes(cls))
    return entry


def _contains_bytes(cls: type[Message]) -> bool:
    return any(
        field.element in {"bytes", "records"} or (field.is_struct and _contains_bytes(struct_class(cls, field.element)))
        for field in fields_of(cls)
    )
