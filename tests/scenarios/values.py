"""The notation of partitions, durations and arguments in scenarios."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from tests.scenarios.language import ScenarioError

__all__ = ["Arguments", "Partitions", "milliseconds", "partitions", "show_milliseconds", "show_partitions"]

Partitions: TypeAlias = dict[str, list[int]]
"""Partition indexes by topic."""

_UNITS_MS: Final = {"ms": 1, "s": 1000}


def milliseconds(text: str) -> int:
    """Parses `500ms` or `2s`; a number without a unit is in milliseconds."""
    match = re.fullmatch(r"(-?\d+)(ms|s)?", text)
    if match is None:
        raise ScenarioError(f"no duration: {text!r}; write 500ms or 2s")
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]


def partitions(text: str) -> Partitions:
    """Parses `events:0-2,5;payments:0`, or `nothing`."""
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
    """Returns a duration in the notation of scenarios."""
    return f"{duration_ms // 1000}s" if duration_ms and duration_ms % 1000 == 0 else f"{duration_ms}ms"


def show_partitions(owned: Mapping[str, Iterable[int]]) -> str:
    """Returns partitions in the notation of scenarios, in sorted order."""
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
    """The arguments of a verb: words in order, and `name=value` pairs. An unused argument is an error (`finish`)."""

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
        """Returns the next word."""
        if self._words:
            return self._words.pop(0)
        if otherwise is None:
            raise ScenarioError("a word is missing")
        return otherwise

    def words(self) -> list[str]:
        """Returns all remaining words."""
        words, self._words = self._words, []
        return words

    def get(self, name: str) -> str | None:
        """Returns a named value of this step, else the member's default, else None."""
        return self._named.pop(name, self._defaults.get(name))

    def given(self, name: str) -> str | None:
        """Returns a named value of this step, without the member's default."""
        return self._named.pop(name, None)

    def take(self, name: str, otherwise: str) -> str:
        """Returns the value of `get`, or a default."""
        value = self.get(name)
        return otherwise if value is None else value

    def duration_ms(self, name: str, otherwise: str) -> int:
        """Returns a named duration in milliseconds."""
        return milliseconds(self.take(name, otherwise))

    def number(self, name: str, otherwise: int) -> int:
        """Returns a named number of this step; `previous` and `next` are relative to the default."""
        text = self.given(name)
        if text is None:
            return otherwise
        beside = {"previous": otherwise - 1, "next": otherwise + 1}
        return beside[text] if text in beside else int(text)

    def of_members(self) -> dict[str, str]:
        """Returns the pairs whose names are members (with a capital), or `nobody`."""
        found = {name: value for name, value in self._named.items() if name[0].isupper() or name == "nobody"}
        for name in found:
            del self._named[name]
        return found

    def finish(self) -> None:
        """Raises `ScenarioError` if an argument was not used."""
        if self._words or self._named:
            raise ScenarioError(f"what is this: {self._words} {self._named}")
