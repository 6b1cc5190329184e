"""Runs all checks over one history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.checker.analysis import (
    aborted_reads,
    commits,
    copies,
    duplicates,
    end_offsets,
    groups,
    inconsistent_offsets,
    lost_writes,
    polls,
    sends,
    sequences,
    torn_transactions,
)
from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts
from tests.checker.history import Entry

__all__ = ["check"]

_Check = Callable[[Facts], Iterator[Anomaly]]

_ALWAYS: tuple[_Check, ...] = (
    inconsistent_offsets.find,
    duplicates.find,
    sequences.find,
    lost_writes.find,
    aborted_reads.find,
    sends.find,
    polls.find,
)
_WITHOUT_LOSS: tuple[_Check, ...] = (
    torn_transactions.find,
    commits.find,
    groups.find,
    copies.find,
    end_offsets.find,
)
"""Checks of group offsets, of coordinator state and of the ends of logs. They hold only if a power loss cannot take
unsynced data."""


def check(entries: Iterable[Entry]) -> tuple[Facts, list[Anomaly]]:
    """Returns the facts of the history and all anomalies in it. Raises ValueError if the history contradicts itself."""
    facts = Facts(entries)
    checks = _ALWAYS if facts.may_lose else _ALWAYS + _WITHOUT_LOSS
    return facts, [anomaly for find in checks for anomaly in find(facts)]
