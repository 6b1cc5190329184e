"""How partitions, durations and arguments are written in scenarios."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from tests.scenarios.language import ScenarioError

__all__ = ["Arguments", "Partitions", "milliseconds", "partitions", "show_milliseconds", "show_partitions"]

Partitions: TypeAlias = dict[str, list[int]]
"""Indexes by topic."""

_UNITS_MS: Final = {"ms": 1, "s": 1000}


def milliseconds(text: str) -> int:
    """`500ms` or `2s`; a bare number is one of milliseconds."""
    match = re.fullmatch(r"(-?\d+)(ms|s)?", text)
    if match is None:
        raise ScenarioError(f"no duration: {text!r}; write 500ms or 2s")
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]


def partitions(text: str) -> Partitions:
    """`events:0-2,5;payments:0`, or `nothing`."""
    if text == "nothing":
        return {}
    found: Partitions = {}
    for part in text.split(";"):
        topic, separator, indexes = part.partition(":")
        if not separator:
            raise ScenarioError(f"no partitions: {text!r}; write events:0-2,5;payments:0 or nothing")
        for each in indexes.split(","):
            first, _, last = each.partition("-")
            found.setdefault(topic, []).extend(range(int(first), int(last or first) + 1))
    return found


def show_milliseconds(duration_ms: int) -> str:
    """The same, as it is written."""
    return f"{duration_ms // 1000}s" if duration_ms and duration_ms % 1000 == 0 else f"{duration_ms}ms"


def show_partitions(owned: Mapping[str, Iterable[int]]) -> str:
    """The same, as it is written; the order of topics and partitions says nothing."""
    return (
        ";".join(f"{topic}:{','.join(_runs(sorted(indexes)))}" for topic, indexes in sorted(owned.items()) if indexes)
        or "nothing"
    )


def _runs(indexes: list[int]) -> Iterator[str]:
    start = 0
    for position, index in enumerate(indexes):
        if position + 1 == len(indexes) or indexes[position + 1] != index + 1:
            first = indexes[start]
            yield str(index) if first == index else f"{first}-{index}"
            start = position + 1


class Arguments:
    """What follows a verb: words in order, and `name=value` pairs. What nobody takes is an error (`finish`)."""

    def __init__(self, words: Iterable[str], defaults: Mapping[str, str]) -> None:
        self._words: list[str] = []
        self._named: dict[str, str] = {}
        self._defaults = defaults
        for word in words:
            name, separator, value = word.partition("=")
            if separator and re.fullmatch(r"[a-z_]+|[A-Z]\w*", name):
                self._named[name] = value
            else:
                self._words.append(word)

    def word(self, otherwise: str | None = None) -> str:
        """The next word."""
        if self._words:
            return self._words.pop(0)
        if otherwise is None:
            raise ScenarioError("a word is missing")
        return otherwise

    def words(self) -> list[str]:
        """All words that are left."""
        words, self._words = self._words, []
        return words

    def get(self, name: str) -> str | None:
        """A named value; the member's own one, where it has it, when the step doesn't say; else None."""
        return self._named.pop(name, self._defaults.get(name))

    def given(self, name: str) -> str | None:
        """A named value of this step alone."""
        return self._named.pop(name, None)

    def take(self, name: str, otherwise: str) -> str:
        """As `get`, with a default."""
        value = self.get(name)
        return otherwise if value is None else value

    def duration_ms(self, name: str, otherwise: str) -> int:
        """A named duration."""
        return milliseconds(self.take(name, otherwise))

    def number(self, name: str, otherwise: int) -> int:
        """A named number of this step; `previous` and `next` are beside the default."""
        text = self.given(name)
        if text is None:
            return otherwise
        beside = {"previous": otherwise - 1, "next": otherwise + 1}
        return beside[text] if text in beside else int(text)

    def of_members(self) -> dict[str, str]:
        """The pairs whose names are members (with a capital), or `nobody`."""
        found = {name: value for name, value in self._named.items() if name[0].isupper() or name == "nobody"}
        for name in found:
            del self._named[name]
        return found

    def finish(self) -> None:
        """Raises `ScenarioError` when something was not taken."""
        if self._words or self._named:
            raise ScenarioError(f"what is this: {self._words} {self._named}")
