"""One thing that should not have happened, and the events that show it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tests.checker.history import Entry, Poll, Send, Sent, to_json

__all__ = ["Anomaly", "describe"]

_SHOWN = 8
"""Records of an event that are shown when it has many."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`kind` is its name in docs/explanation/checker.md; `indexes` are the places of the events in the history."""

    kind: str
    text: str
    indexes: tuple[int, ...]
    values: frozenset[int] = frozenset()
    """The records that it is about."""


def describe(entry: Entry, values: Collection[int]) -> str:
    """One line for the event, with those of its records that are about `values`, or the first and the last ones."""
    event = entry.event
    head = f"{entry.index} at {entry.time_ms / 1000:.3f} s: {type(event).__name__} {event.process}"
    if isinstance(event, Poll):
        parts = [
            f"{partition} {offsets[0]}..{offsets[-1]} ({len(offsets)} records"
            + "".join(f", {offset}={value}" for offset, value in zip(offsets, got, strict=True) if value in values)
            + ")"
            for partition, offsets, got in event.batches
        ]
        return f"{head} {event.isolation} {'; '.join(parts)}"
    if isinstance(event, Send):
        shown = [record for record in event.records if record[1] in values] or list(event.records[:_SHOWN])
        transaction = "" if event.transaction is None else f" in transaction {event.transaction}"
        return f"{head} operation {event.operation}{transaction}: {shown} of {len(event.records)} records"
    if isinstance(event, Sent):
        count = len(event.outcomes)
        return f"{head} operation {event.operation}: {event.outcomes.count('ok')} of {count} records acknowledged"
    rest = to_json(event)
    return f"{head} {rest if len(rest) < 400 else rest[:400] + '...'}"
