"""An anomaly, and the events that show it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tests.checker.history import Entry, Poll, Send, Sent, to_json

__all__ = ["Anomaly", "describe"]

_SHOWN = 8
"""Number of records that are shown of an event with many records."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An anomaly in a history.

    `kind` is its name in docs/explanation/checker.md; `indexes` are the positions of the events in the history.
    """

    kind: str
    text: str
    indexes: tuple[int, ...]
    values: frozenset[int] = frozenset()
    """The values of the records that the anomaly is about."""


def describe(entry: Entry, values: Collection[int]) -> str:
    """Returns one line for the event, with the records that have one of `values`, or else the first records."""
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
