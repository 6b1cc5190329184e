"""Decodes, encodes and frees large messages in small steps.

Results and errors are the same as in `codec`. Each generator yields at least once a millisecond; its caller decides how
many of these steps to run in a row.
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

_CHUNK_BYTES: Final = 64 * 1024
"""Encoded parts are joined into chunks of about this size. A single part of at least this size is not copied."""
FREED_AT_ONCE: Final = 256
_SMALL: Final = 32
_FREED_BY_ITSELF: Final = 8
"""An element that contains more elements than this is freed in steps too, as they may contain further elements."""


def decode_in_steps(
    cls: type[AnyMessage], version: int, view: memoryview, offset: int = 0
) -> Generator[AnyMessage, None, AnyMessage]:
    """Decodes the message at `offset` of a view; all data is copied, and the view must not change until the end.

    Each step yields the message as far as it has been read; the generator returns the whole message. Raises
    MalformedMessage, also for arrays with more than `MAXIMUM_ELEMENTS` elements together, and UnsupportedVersion.
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
    """Encodes a message in one version, and returns its bytes in chunks.

    Raises UnsupportedField and UnsupportedVersion.
    """
    chunks: list[bytes | memoryview] = []
    parts: list[bytes | memoryview] = []
    try:
        encoder, may_be_large = _encoder(type(message), version)
        for _ in encoder(message, parts.append):
            if may_be_large and max(map(len, parts), default=0) >= _CHUNK_BYTES:
                chunks += parts
            elif chunks and len(chunks[-1]) < _CHUNK_BYTES:
                chunks[-1] = b"".join((chunks[-1], *parts))
            else:
                chunks.append(b"".join(parts))
            parts.clear()
            yield
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise unsupported(message, version, error) from error
    return chunks


def dismantle(thing: object) -> Generator[None, None, None]:
    """Frees a message, list, dictionary or set in small steps, because freeing a large one at once takes long.

    Objects with other references stay unchanged.
    """
    if getrefcount(thing) <= _ALONE:
        yield from _dismantle(thing)


def _dismantle(thing: object) -> Generator[None, None, None]:
    """Frees an object that has no other reference."""
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
        if (size > _FREED_BY_ITSELF or (size and _is_deep(item))) and getrefcount(item) <= _ALONE:
            yield from _dismantle(item)
        freed += 1 + size
        if freed >= FREED_AT_ONCE:
            freed = 0
            yield


def is_small(thing: object) -> bool:
    """Returns whether a quick look shows that freeing the object takes almost no time."""
    if isinstance(thing, (list, set, dict)):
        if len(thing) > _SMALL:
            return False
        items = thing.values() if isinstance(thing, dict) else thing
        return not any((size := _size_of(item)) > _SMALL or (size and _is_deep(item)) for item in items)
    return not isinstance(thing, Message)


def _size_of(thing: object) -> int:
    """Returns the number of elements of a container, or of the arrays of a message."""
    if isinstance(thing, Message):
        size = 0
        for name in _large_fields(type(thing)):
            value = getattr(thing, name, None)
            size += _size_of(value) if isinstance(value, Message) else len(value or ())
        return size
    return len(thing) if isinstance(thing, (list, dict, set)) else 0


def _is_deep(thing: object) -> bool:
    """Returns whether a message's structs may contain arrays, so that `_size_of` does not count all elements."""
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
"""The result of `getrefcount` for an argument without other references, which differs between versions of Python."""


_deep: dict[type, bool] = {}
_large_fields_of: dict[type[Message], tuple[str, ...]] = {}
_decoders: dict[tuple[type[Message], int], DecoderInSteps] = {}
_encoders: dict[tuple[type[Message], int], tuple[EncoderInSteps, bool]] = {}
"""Each encoder with a flag whether a single value may be large; strings never are."""


def _large_fields(cls: type[Message]) -> tuple[str, ...]:
    """Returns the names of a struct's fields that are arrays, or structs that may contain arrays."""
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
