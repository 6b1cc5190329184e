"""A request with a long array as several with short ones, and their answers as one again."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Final, Generic, NamedTuple, TypeVar

from klamm.protocol.message import FieldSpec, Message, fields_of, struct_class

__all__ = ["Part", "holds_more_than", "merge", "parts_of"]

AnyMessage = TypeVar("AnyMessage", bound=Message)

LONG_TEXT: Final = 256
"""An element counts once more for so many characters."""
AMONG_THE_LAST: Final = 1000


class Part(NamedTuple, Generic[AnyMessage]):
    """One of the parts of a message."""

    message: AnyMessage
    size: int
    """About how much it holds, see `parts_of`."""
    continued: int
    """In how many levels of arrays the first element is the rest of the last one of the part before: 0 for none, 1 if
    it is a topic that was split, 2 if it is a topic that was split in a group that was split."""


class _Shape(NamedTuple):
    """The fields of a struct, sorted by what is done with them here."""

    scalars: tuple[FieldSpec, ...]
    arrays: tuple[str, ...]
    nested: frozenset[str]
    """Those arrays whose elements have arrays of their own."""
    texts: tuple[str, ...]
    """The fields whose size depends on their value."""


def parts_of(message: AnyMessage, count: int) -> Iterator[Part[AnyMessage]]:
    """The same message as several that hold at most `count` elements each, in order.

    The elements of the innermost arrays count, and those that have none; one that holds long strings counts for
    several. A message is split along one array, the first that has elements; all else stands in every part. The
    elements themselves are not copied unless they are split.
    """
    return _pieces(message, count, count)


def _pieces(message: AnyMessage, room: int, count: int) -> Iterator[Part[AnyMessage]]:
    """The pieces of one struct: up to `room` is in the first one, up to `count` in the others."""
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
    """Whether a message has more elements than that, however long its strings are; quickly told of a short one."""
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
        return 1 + len(item) // LONG_TEXT
    if isinstance(item, Message):
        return 1 + sum(len(getattr(item, name) or ()) for name in _shape(type(item)).texts) // LONG_TEXT
    return 1


def _with(message: AnyMessage, name: str, items: list[object]) -> AnyMessage:
    whole = getattr(message, name)
    if len(items) == len(whole) and items[0] is whole[0] and items[-1] is whole[-1]:
        return message
    part = copy(message)
    setattr(part, name, items)
    return part


def merge(into: Message, part: Message, continued: int) -> None:
    """Adds the answer to a part of a request to the answers to the parts before.

    `continued` is that of the request's part: a struct whose array was split is one struct again. Of other fields the
    first value counts that is not the default: what one part says of the whole holds for the whole.
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
    """Merges the struct that was split, if the answer has both halves; returns what is left of `more`."""
    inner = _shape(type(more[0]))
    # Its first half is among the last, but handlers may answer in another order.
    by_key = {_key(item, inner): item for item in items[-AMONG_THE_LAST:]}
    for place, item in enumerate(more[:AMONG_THE_LAST]):
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
