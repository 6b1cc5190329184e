"""Splits a request with a long array into several requests with short arrays, and merges their responses."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Final, Generic, NamedTuple, TypeVar

from klamm.protocol.message import FieldSpec, Message, fields_of, struct_class

__all__ = ["Part", "holds_more_than", "merge", "parts_of"]

AnyMessage = TypeVar("AnyMessage", bound=Message)

_LONG_TEXT: Final = 256
"""An element counts once more for each multiple of this number of characters."""
_AMONG_THE_LAST: Final = 1000


class Part(NamedTuple, Generic[AnyMessage]):
    """One of the parts of a message."""

    message: AnyMessage
    size: int
    """The approximate number of elements, see `parts_of`."""
    continued: int
    """The number of array levels in which the first element continues the last element of the previous part: 0 for
    none, 1 for a split topic, 2 for a split topic in a split group."""


class _Shape(NamedTuple):
    """The fields of a struct, by their treatment in this module."""

    scalars: tuple[FieldSpec, ...]
    arrays: tuple[str, ...]
    nested: frozenset[str]
    """The arrays whose elements contain arrays."""
    texts: tuple[str, ...]
    """The fields whose size depends on their value."""


def parts_of(message: AnyMessage, count: int) -> Iterator[Part[AnyMessage]]:
    """Splits a message into messages of at most `count` elements each, in order.

    Elements of the innermost arrays count, and elements without arrays; an element with long strings counts for
    several. A message is split along its first non-empty array; all other fields are in every part. Elements are copied
    only if they are split.
    """
    return _pieces(message, count, count)


def _pieces(message: AnyMessage, room: int, count: int) -> Iterator[Part[AnyMessage]]:
    """Yields the pieces of one struct: up to `room` elements in the first piece, up to `count` in each other piece."""
    shape = _shape(type(message))
    name = next((name for name in shape.arrays if getattr(message, name)), None)
    if name is None:
        yield Part(message, _weight(message), 0)
        return
    some: list[object] = []
    size = continued = 0
    for item in getattr(message, name):
        pieces = _pieces(item, room - size, count) if name in shape.nested else (Part(item, _weight(item), 0),)
        for number, piece in enumerate(pieces):
            if not some:
                continued = 1 + piece.continued if number else 0
            some.append(piece.message)
            size += piece.size
            if size >= room:
                yield Part(_with(message, name, some), size, continued)
                some, size, room = [], 0, count
    if some:
        yield Part(_with(message, name, some), size, continued)


def holds_more_than(message: Message, count: int) -> bool:
    """Returns whether a message has more than `count` elements, whatever its strings; quick for a short message."""
    return _count(message, count) > count


def _count(message: Message, enough: int) -> int:
    shape = _shape(type(message))
    for name in shape.arrays:
        items = getattr(message, name)
        if items:
            if name not in shape.nested or len(items) > enough:
                return len(items)
            counted = 0
            for item in items:
                counted += _count(item, enough - counted)
                if counted > enough:
                    break
            return counted
    return 1


def _weight(item: object) -> int:
    if isinstance(item, str):
        return 1 + len(item) // _LONG_TEXT
    if isinstance(item, Message):
        return 1 + sum(len(getattr(item, name) or ()) for name in _shape(type(item)).texts) // _LONG_TEXT
    return 1


def _with(message: AnyMessage, name: str, items: list[object]) -> AnyMessage:
    whole = getattr(message, name)
    if len(items) == len(whole) and items[0] is whole[0] and items[-1] is whole[-1]:
        return message
    part = copy(message)
    setattr(part, name, items)
    return part


def merge(into: Message, part: Message, continued: int) -> None:
    """Adds the response to a part of a request to the merged response of the previous parts.

    `continued` comes from the request's part: a struct whose array was split becomes one struct again. Of scalar fields
    the first value that is not the default counts, so an error of one part is the error of the whole.
    """
    shape = _shape(type(into))
    for field in shape.scalars:
        if getattr(into, field.name) == field.default:
            setattr(into, field.name, getattr(part, field.name))
    _merge_arrays(into, part, shape, continued)


def _merge_arrays(into: Message, part: Message, shape: _Shape, continued: int) -> None:
    for name in shape.arrays:
        items, more = getattr(into, name), getattr(part, name)
        if not more:
            continue
        if not items:
            setattr(into, name, more)
            continue
        if continued and name in shape.nested:
            more = _merge_split(items, more, continued)
        items += more


def _merge_split(items: list[Message], more: list[Message], continued: int) -> list[Message]:
    """Merges the struct that was split, if the response has both halves; returns the rest of `more`."""
    inner = _shape(type(more[0]))
    # The first half is near the end of `items`, but handlers may answer in another order.
    by_key = {_key(item, inner): item for item in items[-_AMONG_THE_LAST:]}
    for place, item in enumerate(more[:_AMONG_THE_LAST]):
        same = by_key.get(_key(item, inner))
        if same is not None:
            _merge_arrays(same, item, inner, continued - 1)
            return more[:place] + more[place + 1 :]
    return more


def _key(item: Message, shape: _Shape) -> tuple[object, ...]:
    return tuple(getattr(item, field.name) for field in shape.scalars)


_shapes: dict[type[Message], _Shape] = {}


def _shape(cls: type[Message]) -> _Shape:
    shape = _shapes.get(cls)
    if shape is None:
        shape = _shapes[cls] = _find_shape(cls)
    return shape


def _find_shape(cls: type[Message]) -> _Shape:
    fields = fields_of(cls)
    arrays = [field for field in fields if field.is_array]
    return _Shape(
        scalars=tuple(field for field in fields if not field.is_array and not field.is_struct),
        arrays=tuple(field.name for field in arrays),
        nested=frozenset(
            field.name for field in arrays if field.is_struct and _shape(struct_class(cls, field.element)).arrays
        ),
        texts=tuple(field.name for field in fields if field.type in {"string", "string16", "bytes"}),
    )
