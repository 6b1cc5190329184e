"""Notes of what happened: a failure shows the last ones, `--trace` shows all.

A note costs nothing until it is read: its values are turned into text at that time.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final
from zlib import crc32

from tests.simulation.loop import EventLoop

from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.message import Message

__all__ = ["Notes", "field_names", "in_words", "shorten", "without_addresses"]

_HIDDEN = frozenset({"throttle_time_ms", "protocols", "reason", "session_timeout_ms", "rebalance_timeout_ms"})
_KEPT = 80


class Notes:
    """The notes of one world. `listener` receives each line at once; `checksum` covers all lines."""

    def __init__(self, loop: EventLoop, listener: Callable[[str], None] | None = None, *, sums: bool = False) -> None:
        self._loop = loop
        self._listener = listener
        self._last: deque[tuple[int, float, str, tuple[object, ...]]] = deque(maxlen=_KEPT)
        self._sums = sums
        self.checksum = 0

    def add(self, template: str, *values: object) -> None:
        """Adds a note."""
        entry = (self._loop.step, self._loop.now_ms, template, values)
        self._last.append(entry)
        if self._listener is not None or self._sums:
            line = _line(*entry)
            if self._listener is not None:
                self._listener(line)
            self.checksum = crc32(line.encode(), self.checksum)

    def last(self) -> Iterator[str]:
        """Yields the last lines."""
        for entry in self._last:
            yield _line(*entry)


def _line(step: int, now_ms: float, template: str, values: tuple[object, ...]) -> str:
    return f"{step:7d} {now_ms:10.0f} ms  " + template % tuple(in_words(value) for value in values)


def in_words(value: object) -> object:
    """Returns a message, or a value in a message, as readable text.

    Equal values have equal text, for any hashes of strings, and no text contains the address of an object.
    """
    if type(value) in _PLAIN:
        return value
    for kind, words in _WORDS:
        if isinstance(value, kind):
            return words(value)
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return value.__qualname__
    has_words = type(value).__str__ is not object.__str__
    if not has_words and (type(value).__repr__ is object.__repr__ or dataclasses.is_dataclass(value)):
        return _object(value)
    return without_addresses(str(value))


def without_addresses(text: str) -> str:
    """Returns the text without the addresses of objects that Python's own representations contain."""
    return _ADDRESS.sub("", text)


def field_names(value: object) -> tuple[str, ...]:
    """Returns the field names of a message, a named tuple, a dataclass, or another object with slots or attributes."""
    names = getattr(value, "_fields", None)
    if names is not None:
        return tuple(names)
    if isinstance(value, Message):
        return tuple(name for name, *_ in value.FIELDS)
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    slots = [name for cls in type(value).__mro__ for name in _tuple_of(getattr(cls, "__slots__", ()))]
    return tuple(name for name in [*slots, *getattr(value, "__dict__", ())] if name not in ("__dict__", "__weakref__"))


def shorten(text: str, most: int) -> str:
    """Returns the text, or its beginning with the number of further characters."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more)"


_being_told: Final[set[int]] = set()
"""Objects that are being turned into text: an object that contains itself is shown once."""


def _object(value: object) -> str:
    name = type(value).__name__
    if id(value) in _being_told:
        return f"{name}(…)"
    _being_told.add(id(value))
    try:
        defaults = _defaults(type(value))
        fields = [(field, getattr(value, field, None)) for field in field_names(value)]
        told = [
            f"{field}={in_words(each)}" for field, each in fields if field not in defaults or each != defaults[field]
        ]
    finally:
        _being_told.discard(id(value))
    return f"{name}({', '.join(told)})"


def _defaults(cls: type) -> dict[str, object]:
    """Returns the default values of a dataclass; fields with their default value are not shown."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {each.name: each.default for each in dataclasses.fields(cls) if each.default is not dataclasses.MISSING}


def _tuple_of(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _message(message: Message) -> str:
    fields = []
    for name, *_ in message.FIELDS:
        value = getattr(message, name)
        if name not in _HIDDEN and value not in ("", None, []):
            fields.append(f"{name}={in_words(ErrorCode(value) if name == 'error_code' else value)}")
    return f"{type(message).__name__}({', '.join(fields)})"


def _tuple(value: tuple[object, ...]) -> str:
    names = getattr(value, "_fields", None)
    if names is None:
        return "(" + ", ".join(str(in_words(each)) for each in value) + ")"
    fields = ", ".join(f"{name}={in_words(each)}" for name, each in zip(names, value, strict=True))
    return f"{type(value).__name__}({fields})"


def _bytes(value: bytes) -> str:
    if len(value) == 16:
        return value.hex()[:6]
    try:
        assigned = decode_assignment(value).assigned_partitions
    except MalformedMessage:
        is_text = value.isascii() and value.decode("ascii").isprintable()
        return repr(value) if is_text else value.hex()
    return " ".join(f"{topic.topic}{topic.partitions}" for topic in assigned) or "nothing"


_PLAIN: Final = frozenset({int, float, str, bool, type(None)})
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


def _mapping(values: Mapping[Any, Any]) -> str:
    parts = sorted((str(in_words(key)), str(in_words(each))) for key, each in values.items())
    return "{" + ", ".join(f"{key}: {each}" for key, each in parts) + "}"


_WORDS: Final[Sequence[tuple[type | tuple[type, ...], Callable[[Any], object]]]] = (
    (Message, _message),
    (ErrorCode, lambda code: code.name),
    (Enum, lambda member: member.value if isinstance(member.value, str) else member.name.lower()),
    (bytes, _bytes),
    (list, lambda values: "[" + ", ".join(str(in_words(each)) for each in values) + "]"),
    (tuple, _tuple),
    ((set, frozenset), lambda values: "{" + ", ".join(sorted(str(in_words(each)) for each in values)) + "}"),
    (Mapping, _mapping),
    (partial, lambda call: f"partial({in_words(call.func)})"),
)
