"""Tells what limits a group, from a measurement of this moment and from the group's history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klamm.core.group.history.change import Outcome
from klamm.core.group.history.history_record import HistoryRecord
from klamm.core.group.partition_limits import GroupLimit, limit_help, limit_text
from klamm.insight.group.member_names import MemberNames
from klamm.insight.words import enumeration, span

__all__ = ["limit_lines"]


def limit_lines(
    measured: Sequence[GroupLimit] | None, history: Sequence[HistoryRecord], now_ms: int, names: MemberNames
) -> Iterator[str]:
    """Yields what limits the group, what would help, and since when the group is limited.

    `measured` is None if the group was not measured now; then the history alone counts.
    """
    for limit in measured or ():
        yield names.in_text(limit_text(limit))
        yield names.in_text(limit_help(limit))
    last = _last_limit(history)
    if last is None:
        return
    since = span(now_ms - last.finished_ms)
    if measured:
        yield f"its history says so since {since}"
    elif measured is None:
        yield f"since {since}, by its history: {enumeration([names.in_text(cause.text) for cause in last.causes])}"


def _last_limit(history: Sequence[HistoryRecord]) -> HistoryRecord | None:
    """Returns the limit that the history has not seen to end."""
    for record in reversed(history):
        if record.outcome == Outcome.LIMITED.value:
            return record
        if record.outcome in (Outcome.KEEPS_UP.value, Outcome.EMPTY.value, Outcome.DELETED.value):
            return None
    return None
