"""Parses Java's properties files, such as Kafka's `server.properties`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from klamm.config.errors import ConfigurationError

__all__ = ["Property", "parse_properties"]

# Blanks before the key, the key (any escaped character belongs to it), the separator, the rest.
_ENTRY: Final = re.compile(r"[ \t\f]*((?:\\.|[^\\ \t\f:=])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u(.{0,4})|(.)|$)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"


class Property(NamedTuple):
    """A key's value, and the line on which the entry begins, counted from 1."""

    value: str
    line: int


def parse_properties(text: str) -> dict[str, Property]:
    r"""Returns the entries of a file as `java.util.Properties.load` reads them; the last entry of a key counts.

    Raises ConfigurationError, which names the line, for a `\u` that is not followed by four hexadecimal digits.
    """
    entries: dict[str, Property] = {}
    for number, line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        assert match is not None  # every string matches: the key may be empty and the rest anything
        entries[_unescape(match[1], number)] = Property(_unescape(match[2], number), number)
    return entries


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Returns the lines except comments and empty lines; a line that ends in an odd run of backslashes is continued."""
    lines: list[tuple[int, str]] = []
    pending: tuple[int, str] | None = None
    for number, natural in enumerate(_LINE_ENDS.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        first, begun = pending or (number, "")
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = (first, begun + line[:-1])
        else:
            lines.append((first, begun + line))
            pending = None
    if pending is not None and pending[1]:
        lines.append(pending)
    return lines


def _unescape(text: str, line: int) -> str:
    def character(match: re.Match[str]) -> str:
        digits, plain = match[1], match[2]
        if digits is None:
            return _ESCAPED.get(plain, plain) if plain is not None else ""
        if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            raise ConfigurationError(f"line {line}: \\u{digits} is no character; four hexadecimal digits are needed")
        return chr(int(digits, 16))

    return _ESCAPE.sub(character, text) if "\\" in text else text
