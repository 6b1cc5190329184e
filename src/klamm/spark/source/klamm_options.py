"""The options that only this source has: those that begin with `klamm.`.

An option more is a field of `KlammOptions` with its default, and a row of `_ROWS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from klamm.spark.source.errors import OptionError
from klamm.spark.source.option_values import parse_truth

__all__ = ["KLAMM_PREFIX", "KlammOptions"]

KLAMM_PREFIX: Final = "klamm."


@dataclass(frozen=True, slots=True)
class KlammOptions:
    """The `klamm.…` options of one query, checked."""

    filter_pushdown: bool = False
    """Whether filters of a batch read are pushed down to the log."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> KlammOptions:
        """From all options of a query, keys in lower case; those of other prefixes are left alone.

        Raises `OptionError` for a key that is none, and for a value that its key does not take.
        """
        values = {}
        for key, text in given.items():
            if not key.startswith(KLAMM_PREFIX):
                continue
            if key not in _PARSERS:
                raise OptionError(f"unknown option {key!r}; there are {', '.join(sorted(_names()))}")
            row = _PARSERS[key]
            values[row.field] = row.parse(row.name, text)
        return cls(**values)


class _Row(NamedTuple):
    name: str
    """The option as it is written."""
    field: str
    parse: Callable[[str, str], Any]
    """From the option's name and its text; raises `OptionError`."""


_ROWS: Final = (_Row("klamm.filterPushdown", "filter_pushdown", parse_truth),)
_PARSERS: Final[Mapping[str, _Row]] = {row.name.lower(): row for row in _ROWS}


def _names() -> list[str]:
    return [row.name for row in _ROWS]
