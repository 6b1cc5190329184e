"""All checks over one history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.checker.analysis import (
    aborted_reads,
    commits,
    copies,
    duplicates,
    groups,
    inconsistent_offsets,
    lost_writes,
    polls,
    sends,
    torn_transactions,
)
from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts
from tests.checker.history import Entry

__all__ = ["check"]

_CHECKS: tuple[Callable[[Facts], Iterator[Anomaly]], ...] = tuple(
    each.find
    for each in (
        inconsistent_offsets,
        duplicates,
        lost_writes,
        aborted_reads,
        sends,
        polls,
        torn_transactions,
        commits,
        groups,
        copies,
    )
)


def check(entries: Iterable[Entry]) -> tuple[Facts, list[Anomaly]]:
    """What the history says, and all that is wrong in it. A history that can't be one raises ValueError."""
    facts = Facts(entries)
    return facts, [anomaly for find in _CHECKS for anomaly in find(facts)]
