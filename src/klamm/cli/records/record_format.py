"""The output of `klamm consume`: kcat's format language, JSON lines, or columns. A format prints bytes unchanged."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, TypeAlias

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from klamm.cli.output import tsv_cell

__all__ = ["Printer", "column_header", "column_printer", "compile_format", "json_printer"]

Printer: TypeAlias = Callable[[Message], bytes]

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN: Final = re.compile(r"%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)


def compile_format(text: str) -> Printer:
    """Returns a function that formats one record according to a text in kcat's format language.

    Raises ArgumentTypeError for an unknown token.
    """
    parts: list[Printer] = []
    for match in _TOKEN.finditer(text):
        token, escape, literal = match.groups()
        if token in TOKENS:
            parts.append(TOKENS[token])
        elif token is not None and token != "%":
            known = ", ".join(f"%{name}" for name in TOKENS)
            raise ArgumentTypeError(f"%{token} means nothing in a format; there are {known} and %%")
        elif token is not None:
            parts.append(_constant(b"%"))
        elif escape is not None:
            parts.append(_constant(_ESCAPES.get(escape, b"\\" + escape.encode())))
        else:
            parts.append(_constant(literal.encode()))
    return lambda message: b"".join([part(message) for part in parts])


def _constant(data: bytes) -> Printer:
    return lambda message: data


def _bytes(data: bytes | str | None) -> bytes:
    return data.encode() if isinstance(data, str) else data or b""


def _size(data: bytes | str | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(_bytes(data))


def _header_list(message: Message) -> bytes:
    return b",".join(name.encode() + b"=" + _bytes(value) for name, value in _headers(message))


TOKENS: Final[dict[str, Printer]] = {
    "t": lambda message: _bytes(message.topic()),
    "p": lambda message: b"%d" % (message.partition() or 0),
    "o": lambda message: b"%d" % (message.offset() or 0),
    "k": lambda message: _bytes(message.key()),
    "s": lambda message: _bytes(message.value()),
    "K": lambda message: _size(message.key()),
    "S": lambda message: _size(message.value()),
    "T": lambda message: b"%d" % message.timestamp()[1],
    "h": _header_list,
}
"""The tokens of a format, as in kcat. The size of null is -1."""


def json_printer(message: Message) -> bytes:
    """Returns a record as a line with a JSON object. Bytes that are no UTF-8 become the replacement character."""
    row: dict[str, Any] = dict(zip(COLUMNS, _cells(message), strict=True))
    row["headers"] = [[name, _text(value)] for name, value in _headers(message)]
    return json.dumps(row).encode() + b"\n"


def column_printer(null: str) -> Printer:
    """Returns a function that formats a record as columns, separated by tabs. `null` is the text for a missing value.

    A stream can't be aligned, since the columns' widths are not known in advance.
    """
    return lambda message: _line(tsv_cell(cell, null) for cell in _cells(message))


def column_header(names: Callable[[str], str] = str) -> bytes:
    """Returns the header line of the columns."""
    return _line(map(names, COLUMNS))


def _line(cells: Iterable[str]) -> bytes:
    return "\t".join(cells).encode() + b"\n"


def _cells(message: Message) -> tuple[Any, ...]:
    kind, milliseconds = message.timestamp()
    when = _time(milliseconds) if kind != TIMESTAMP_NOT_AVAILABLE else None
    return message.topic(), message.partition(), message.offset(), when, _text(message.key()), _text(message.value())


def _headers(message: Message) -> list[tuple[str, bytes | str | None]]:
    headers = message.headers()
    return headers if isinstance(headers, list) else []


def _time(milliseconds: int) -> str:
    """Returns a timestamp in local time. Of one outside of the calendar, for example because the producer wrote
    microseconds, returns the number."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def _text(data: bytes | str | None) -> str | None:
    return data.decode(errors="replace") if isinstance(data, bytes) else data
