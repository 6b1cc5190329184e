"""Decoding and encoding of messages that may be large, a little at a time.

The codecs are those of `codec`, with the same results and the same errors. Who drives the generators says how long a
step lasts: each one stops at least once a millisecond.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from sys import getrefcount
from typing import Final, TypeVar

from klamm.protocol.codec import check_version, malformed, unsupported
from klamm.protocol.compile_decoder import MAXIMUM_ELEMENTS, DecoderInSteps, compile_decoder_in_steps
from klamm.protocol.compile_encoder import EncoderInSteps, compile_encoder_in_steps
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message, fields_of, struct_class

__all__ = ["MAXIMUM_ELEMENTS", "decode_in_steps", "dismantle", "encode_in_steps", "is_small"]

AnyMessage = TypeVar("AnyMessage", bound=Message)

CHUNK_BYTES: Final = 64 * 1024
"""What is encoded is joined when there is so much of it. A part that is as large by itself is not copied."""
FREED_AT_ONCE: Final = 256
SMALL: Final = 32
FREED_BY_ITSELF: Final = 8
"""An element that holds more than so many others is freed in steps, too: these may hold others again."""


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


def dismantle(thing: object) -> Generator[None, None, None]:
    """Frees a message, a list, a dictionary or a set that its caller needs no more, a little at a time: to free a large
    one at once takes long.

    What somebody else refers to stays as it is.
    """
    if getrefcount(thing) <= _ALONE:
        yield from _dismantle(thing)


def _dismantle(thing: object) -> Generator[None, None, None]:
    """The same for what is known to have no other owner."""
    if isinstance(thing, Message):
        for name in _large_fields(type(thing)):
            value = getattr(thing, name, None)
            if value and getrefcount(value) <= _ALONE + 1:
                yield from _dismantle(value)
        return
    if not isinstance(thing, (list, dict, set)):
        return
    freed = 0
    while thing:
        item = thing.popitem()[1] if isinstance(thing, dict) else thing.pop()
        size = _size_of(item)
        if (size > FREED_BY_ITSELF or (size and _is_deep(item))) and getrefcount(item) <= _ALONE:
            yield from _dismantle(item)
        freed += 1 + size
        if freed >= FREED_AT_ONCE:
            freed = 0
            yield


def is_small(thing: object) -> bool:
    """Whether to free a thing takes no time, as far as one can tell quickly."""
    if isinstance(thing, (list, set, dict)):
        if len(thing) > SMALL:
            return False
        items = thing.values() if isinstance(thing, dict) else thing
        return not any((size := _size_of(item)) > SMALL or (size and _is_deep(item)) for item in items)
    return not isinstance(thing, Message)


def _size_of(thing: object) -> int:
    """How many elements it has, or its arrays have."""
    if isinstance(thing, Message):
        size = 0
        for name in _large_fields(type(thing)):
            value = getattr(thing, name, None)
            size += _size_of(value) if isinstance(value, Message) else len(value or ())
        return size
    return len(thing) if isinstance(thing, (list, dict, set)) else 0


def _is_deep(thing: object) -> bool:
    """Whether its arrays may have elements that hold arrays again, so that its size does not tell how much it holds."""
    cls = type(thing)
    found = _deep.get(cls)
    if found is None:
        found = _deep[cls] = issubclass(cls, Message) and any(
            _large_fields(struct_class(cls, field.element)) for field in fields_of(cls) if field.is_struct
        )
    return found


def _references_of_an_argument(argument: object) -> int:
    return getrefcount(argument)


_ALONE: Final = _references_of_an_argument(object())
"""What `getrefcount` says of an argument that nobody else refers to: it differs between versions of Python."""


_deep: dict[type, bool] = {}
_large_fields_of: dict[type[Message], tuple[str, ...]] = {}
_decoders: dict[tuple[type[Message], int], DecoderInSteps] = {}
_encoders: dict[tuple[type[Message], int], tuple[EncoderInSteps, bool]] = {}
"""Each with whether a single value may be large: strings never are."""


def _large_fields(cls: type[Message]) -> tuple[str, ...]:
    """The names of the arrays in a struct, and of the structs, which may have arrays."""
    found = _large_fields_of.get(cls)
    if found is None:
        names = (field.name for field in fields_of(cls) if field.is_array or field.is_struct)
        found = _large_fields_of[cls] = tuple(names)
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
