"""Where a flow without a checkpoint starts to read: a word, a time, or the commits of a group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

from klamm.pipelines.errors import DeclarationError
from klamm.protocol.types import Millis

__all__ = ["AtTime", "GroupOfStart", "StartingPoint", "group", "parse_start"]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at this time or later; the end of a partition that has none."""

    timestamp_ms: Millis

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.timestamp_ms / 1000).astimezone()
        return f"the first record from {moment.isoformat(timespec='seconds')} on"


@dataclass(frozen=True, slots=True)
class GroupOfStart:
    """The committed offsets of a group; the start of a partition that the group has no commit for."""

    group_id: str
    """The group's full id: no environment is put before it."""

    def __str__(self) -> str:
        return f"the commits of group {self.group_id}"


_Word = Literal["earliest", "latest", "committed"]
StartingPoint = _Word | AtTime | GroupOfStart
"""`committed` means the commits of the flow's own group."""

_WORDS: Final[tuple[_Word, ...]] = get_args(_Word)


def group(group_id: str) -> GroupOfStart:
    """Returns the start at the committed offsets of another group, for `topic(…, start=group("billing"))`.

    Raises `DeclarationError` for an empty id."""
    if not isinstance(group_id, str) or not group_id:
        raise DeclarationError("group() takes the id of a group, such as group('billing')")
    return GroupOfStart(group_id)


def parse_start(start: object) -> StartingPoint:
    """Parses the argument `start` of `topic()`. A time without an offset from UTC is local time.

    Raises `DeclarationError`."""
    if isinstance(start, GroupOfStart):
        return start
    if isinstance(start, datetime):
        return _at(start)
    for word in _WORDS:
        if start == word:
            return word
    if isinstance(start, str):
        try:
            return _at(datetime.fromisoformat(start))
        except (ValueError, OverflowError):
            pass
    raise DeclarationError(
        f"start={start!r}: a flow starts at 'earliest', 'latest', 'committed' (the commits of its own group), "
        "group('another-group'), a datetime, or a time such as '2026-01-31T12:00:00'"
    )


def _at(moment: datetime) -> AtTime:
    return AtTime(Millis(int(moment.astimezone().timestamp() * 1000)))
