"""What happened, in words: the last of it with every failure, all of it with `--trace`.

A note costs nothing until somebody reads it: values are put into words when the notes are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Final
from zlib import crc32

from tests.simulation.loop import EventLoop

from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.message import Message

__all__ = ["Notes", "in_words"]

_HIDDEN = frozenset({"throttle_time_ms", "protocols", "reason", "session_timeout_ms", "rebalance_timeout_ms"})
_KEPT = 80


class Notes:
    """The notes of one world. `listener` hears each line as it is made; `checksum` is over all of them."""

    def __init__(self, loop: EventLoop, listener: Callable[[str], None] | None = None, *, sums: bool = False) -> None:
        self._loop = loop
        self._listener = listener
        self._last: deque[tuple[int, float, str, tuple[object, ...]]] = deque(maxlen=_KEPT)
        self._sums = sums
        self.checksum = 0

    def add(self, template: str, *values: object) -> None:
        """Something has happened."""
        entry = (self._loop.step, self._loop.now_ms, template, values)
        self._last.append(entry)
        if self._listener is not None or self._sums:
            line = _line(*entry)
            if self._listener is not None:
                self._listener(line)
            self.checksum = crc32(line.encode(), self.checksum)

    def last(self) -> Iterator[str]:
        """The last lines."""
        for entry in self._last:
            yield _line(*entry)


def _line(step: int, now_ms: float, template: str, values: tuple[object, ...]) -> str:
    return f"{step:7d} {now_ms:10.0f} ms  " + template % tuple(in_words(value) for value in values)


def in_words(value: object) -> object:
    """A message, or a value in one, as a person wants to read it; the same for equal sets."""
    for kind, words in _WORDS:
        if isinstance(value, kind):
            return words(value)
    return value


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
        return value.hex()
    return " ".join(f"{topic.topic}{topic.partitions}" for topic in assigned) or "nothing"


_WORDS: Final[Sequence[tuple[type | tuple[type, ...], Callable[[Any], object]]]] = (
    (Message, _message),
    (ErrorCode, lambda code: code.name),
    (Enum, lambda member: member.value),
    (bytes, _bytes),
    (list, lambda values: "[" + ", ".join(str(in_words(each)) for each in values) + "]"),
    (tuple, _tuple),
    ((set, frozenset), lambda values: "{" + ", ".join(sorted(str(in_words(each)) for each in values)) + "}"),
    (
        dict,
        lambda values: "{" + ", ".join(f"{in_words(key)}: {in_words(each)}" for key, each in values.items()) + "}",
    ),
)
