"""Skipped and reordered polls: a consumer receives the records of a partition in order, and none is left out.

The visible records are all that any consumer with the same isolation level has seen. An assignment resets a consumer's
positions; after an assignment with an offset, the first record is the next visible one from that offset on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts
from tests.checker.history import Assign, Entry, Poll, Revoke

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `poll-skip` and `nonmonotonic-poll` between two polls of a consumer.

    Yields `int-poll-skip` and `int-nonmonotonic-poll` within one poll.
    """
    for entries in facts.reading.values():
        last: dict[str, tuple[int, int]] = {}  # the offset that was read last, and the event
        for entry in entries:
            event = entry.event
            if isinstance(event, Revoke):
                for partition in event.partitions:
                    last.pop(partition, None)
            elif isinstance(event, Assign):
                for partition, offset in event.positions:
                    last.pop(partition, None)
                    if offset is not None:
                        last[partition] = offset - 1, entry.index
            elif isinstance(event, Poll):
                yield from _poll(facts, entry, event, last)


def _poll(facts: Facts, entry: Entry, event: Poll, last: dict[str, tuple[int, int]]) -> Iterator[Anomaly]:
    for partition, offsets, _ in event.batches:
        previous = last.get(partition)
        prefix = ""
        visible = facts.visible[event.isolation][partition]
        for offset in offsets:
            if previous is not None:
                text = f"{event.process} read {partition} at {offset} after {previous[0]}"
                indexes = tuple(sorted({previous[1], entry.index}))
                if offset <= previous[0]:
                    yield Anomaly(f"{prefix}nonmonotonic-poll", text, indexes)
                elif skipped := visible[bisect_right(visible, previous[0]) : bisect_left(visible, offset)]:
                    shown = f"{len(skipped)} records from {skipped[0]} to {skipped[-1]}"
                    yield Anomaly(f"{prefix}poll-skip", f"{text}, without {shown} that others saw", indexes)
            previous = offset, entry.index
            prefix = "int-"
        if previous is not None:
            last[partition] = previous
