"""The options that only this source has: those that begin with `klamm.`.

To add an option, add a field with a default to `KlammOptions`, and a row to `_ROWS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.option_values import parse_truth, parse_word

__all__ = ["KLAMM_PREFIX", "KlammOptions"]

KLAMM_PREFIX: Final = "klamm."


@dataclass(frozen=True, slots=True)
class KlammOptions:
    """The validated `klamm.…` options of one query."""

    filter_pushdown: bool = False
    """Whether filters of a batch read are pushed down to the log."""
    group_mode: Literal["commit", "member"] = "commit"
    """Whether the query only commits its progress to its group, or is the one member that owns the group."""
    group_reset: Literal["earliest", "latest", "fail"] = "earliest"
    """The start of a partition without a commit of the group, with `startingOffsets=committed`."""
    group_conflict: Literal["checkpoint", "fail"] = "checkpoint"
    """What to do when the checkpoint and the group disagree."""
    group_checkpoint: str | None = None
    """The location of the query's checkpoint, needed to commit the last micro-batch of a stopped query to the group."""
    stop_file: str | None = None
    """The location of a file; while it exists, the query plans nothing."""
    followed_checkpoint: str | None = None
    """The location of another query's checkpoint; the query reads only what that query has finished."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> KlammOptions:
        """Parses a query's options, whose keys are in lower case; ignores other prefixes.

        Raises `OptionError` for an unknown key, and for an invalid value.
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
    """The option's name as users write it."""
    field: str
    parse: Callable[[str, str], Any]
    """Takes the option's name and its text; raises `OptionError`."""


def _word(*words: str) -> Callable[[str, str], str]:
    return lambda option, text: parse_word(option, text, *words)


def _path(option: str, text: str) -> str:
    if not text.strip():
        raise OptionError(f"{option} is empty")
    return text.strip()


_ROWS: Final = (
    _Row("klamm.filterPushdown", "filter_pushdown", parse_truth),
    _Row("klamm.group.mode", "group_mode", _word("commit", "member")),
    _Row("klamm.group.reset", "group_reset", _word("earliest", "latest", "fail")),
    _Row("klamm.group.conflict", "group_conflict", _word("checkpoint", "fail")),
    _Row("klamm.group.checkpointLocation", "group_checkpoint", _path),
    _Row("klamm.stop.file", "stop_file", _path),
    _Row("klamm.follow.checkpointLocation", "followed_checkpoint", _path),
)
_PARSERS: Final[Mapping[str, _Row]] = {row.name.lower(): row for row in _ROWS}


def _names() -> list[str]:
    return [row.name for row in _ROWS]
