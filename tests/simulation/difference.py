"""The differences between two values, field by field, with the names of the fields.

Checkers use it for reports: `group orders · member A · member_epoch: klamm 2, replay 3`. A report contains no object
address, its length is bounded, and its text does not depend on the hashes of strings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from enum import Enum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from tests.simulation.notes import field_names, in_words, shorten, without_addresses

__all__ = ["Different", "difference", "differences"]

_LINES: Final = 12
_CHARACTERS: Final = 120
"""Maximum length of a shown value."""
_BEFORE: Final = 20
"""A long value is shown from this many characters before the first difference."""
_ENTRY: Final = {
    "groups": "group",
    "consumer_groups": "consumer group",
    "members": "member",
    "static_members": "static member",
    "regexes": "regular expression",
    "transactions": "transaction",
    "target": "target of member",
    "offsets": "offsets of group",
    "pending_offsets": "pending offsets of producer",
    "open_transactions": "open transactions of group",
    "owners": "owners of topic",
}
"""The name of one entry, by the name of its mapping or sequence."""
_IDENTITIES: Final = ("member_id", "group_id", "transactional_id", "name")
"""Fields that identify the values of a sequence, so that the values of both sides can be matched."""


class _Nothing:
    """Placeholder for a value that one side does not have."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING: Final = _Nothing()


class Different(NamedTuple):
    """One difference: its path, and the values of both sides."""

    path: tuple[str, ...]
    found: object
    expected: object


def difference(
    found: object,
    expected: object,
    *,
    names: tuple[str, str] = ("klamm", "replay"),
    skipped: Collection[str] = (),
    lines: int = _LINES,
) -> str:
    """Returns one line for each difference, at most `lines`. `names` are the names of the two sides.

    Ignores the fields in `skipped`, such as `ConsumerGroup.index`.
    """
    found_lines: list[str] = []
    more = 0
    for each in differences(found, expected, skipped=skipped):
        if len(found_lines) == lines:
            more += 1
        else:
            found_lines.append(_line(each, names))
    if more:
        found_lines.append(f"and {more} more {'difference' if more == 1 else 'differences'}")
    return "\n".join(found_lines) or "no difference"


def differences(found: object, expected: object, *, skipped: Collection[str] = ()) -> Iterator[Different]:
    """Yields all differences, in an order that depends only on the values."""
    return _walk((), found, expected, frozenset(skipped))


def _line(each: Different, names: tuple[str, str]) -> str:
    found, expected = each.found, each.expected
    if isinstance(found, Set) and isinstance(expected, Set):
        # For sets, the report shows only the elements that the other side lacks: a whole set may be large.
        only = (set(found) - set(expected), set(expected) - set(found))
        said = [f"only {name} has {_cut(str(in_words(each)))}" for name, each in zip(names, only, strict=True) if each]
    else:
        said = [f"{name} {words}" for name, words in zip(names, _words(found, expected), strict=True)]
    where = " · ".join(each.path)
    return f"{where}: {', '.join(said)}" if where else ", ".join(said)


def _words(found: object, expected: object) -> tuple[str, str]:
    """Returns both values as text, each cut to a part that shows the difference."""
    one, other = str(in_words(found)), str(in_words(expected))
    if one == other:
        # `in_words` shortens some values: it keeps only the beginning of a topic id.
        one, other = without_addresses(repr(found)), without_addresses(repr(expected))
    same = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    skipped = max(0, same - _BEFORE) if max(len(one), len(other)) > _CHARACTERS else 0
    return _cut(one, skipped), _cut(other, skipped)


def _cut(text: str, skipped: int = 0) -> str:
    return ("…" if skipped else "") + shorten(text[skipped:], _CHARACTERS) or "''"


def _walk(path: tuple[str, ...], found: Any, expected: Any, skipped: frozenset[str]) -> Iterator[Different]:
    if found is expected or found == expected:
        return
    parts = _parts(found, expected, skipped)
    if parts is None:
        yield Different(path, found, expected)
        return
    for steps, one, other in parts:
        yield from _walk(_joined(path, steps), one, other, skipped)


def _joined(path: tuple[str, ...], step: str | _Entry) -> tuple[str, ...]:
    if isinstance(step, str):
        return (*path, step)
    name = _ENTRY.get(path[-1]) if path else None
    if name is None:
        return (*path, step.key)
    return (*path[:-1], f"{name} {step.key}")


class _Entry(NamedTuple):
    """A path step to one entry of a collection."""

    key: str


_Parts = Iterator[tuple[str | _Entry, Any, Any]]


def _parts(found: Any, expected: Any, skipped: frozenset[str]) -> _Parts | None:
    """Returns the parts of both values in pairs, or None if the values can't be compared part by part."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        return _entries(found, expected)
    is_sequence = all(isinstance(each, list | tuple) and not hasattr(each, "_fields") for each in (found, expected))
    if is_sequence:
        return _items(found, expected)
    if isinstance(found, Enum):
        return None
    if type(found) is type(expected) and (names := field_names(found)):
        owner = type(found).__name__
        return (
            (name, getattr(found, name, NOTHING), getattr(expected, name, NOTHING))
            for name in names
            if f"{owner}.{name}" not in skipped
        )
    return None


def _entries(found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> _Parts:
    keys = {str(in_words(key)): key for key in [*found, *expected]}
    for words in sorted(keys):
        key = keys[words]
        yield _Entry(shorten(words, _CHARACTERS)), found.get(key, NOTHING), expected.get(key, NOTHING)


def _items(found: Sequence[Any], expected: Sequence[Any]) -> _Parts | None:
    identity = _identity([*found, *expected])
    if identity is not None:
        sides = [{str(identity(each)): each for each in side} for side in (found, expected)]
        if [len(side) for side in sides] == [len(found), len(expected)] and sides[0] != sides[1]:
            return _entries(*sides)
    if len(found) == len(expected):
        return (
            (_Entry(f"#{index}"), one, other) for index, (one, other) in enumerate(zip(found, expected, strict=True))
        )
    return None


def _identity(values: Sequence[Any]) -> Callable[[Any], Any] | None:
    """Returns the key function that tells the values of a sequence apart, or None if they have no field for it."""
    for name in _IDENTITIES:
        if values and all(name in field_names(each) for each in values):
            return attrgetter(name)
    return None
