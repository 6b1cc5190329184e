"""Lost commits: a group reads the offset that was acknowledged, or a later one (I17).

A partition has one owner at a time, the next owner begins at the committed offset, and stale commits are refused. So a
group's offsets only rise in these runs. An offset that is read must not be below the highest one acknowledged before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts
from tests.checker.history import Assign, Entry, Poll, Revoke

__all__ = ["find"]

_Acknowledged = dict[tuple[str, str], list[tuple[int, int]]]
"""By group and partition: the event that acknowledged a commit, and the highest offset so far."""


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `lost-commit` if a fetched offset, or a group member's first record, lies below a commit that was
    acknowledged before, and also if a fetched offset was never committed."""
    acknowledged = _acknowledged(facts)
    tried: dict[tuple[str, str], set[int]] = defaultdict(set)
    for commit in facts.commits:
        for partition, offset in commit.offsets.items():
            tried[commit.group, partition].add(offset)
    for fetch in facts.fetches:
        index = fetch.index
        for partition, fetched in fetch.offsets.items():
            place = fetch.group, partition
            found = f"{fetch.group} had {fetched} for {partition}"
            if fetched is not None and fetched not in tried[place]:
                yield Anomaly("lost-commit", f"{found}, which nobody had committed", (index,))
            least, at = _before(acknowledged, place, fetch.asked_index)
            if least is not None and (fetched is None or fetched < least):
                yield Anomaly("lost-commit", f"{found}, and {least} had been acknowledged", (at, index))
    for entries in facts.reading.values():
        yield from _first_polls(acknowledged, entries)


def _acknowledged(facts: Facts) -> _Acknowledged:
    found: _Acknowledged = defaultdict(list)
    for commit in facts.commits:
        if (index := commit.acknowledged_index) is not None:
            for partition, offset in commit.offsets.items():
                found[commit.group, partition].append((index, offset))
    for each in found.values():
        each.sort()
    return found


def _before(acknowledged: _Acknowledged, place: tuple[str, str], index: int) -> tuple[int | None, int]:
    least, at = None, -1
    for done, offset in acknowledged.get(place, ()):
        if done > index:
            break
        if least is None or offset > least:
            least, at = offset, done
    return least, at


def _first_polls(acknowledged: _Acknowledged, entries: list[Entry]) -> Iterator[Anomaly]:
    fresh: dict[str, tuple[str, int]] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, Assign) and event.group is not None:
            fresh |= {partition: (event.group, entry.index) for partition, offset in event.positions if offset is None}
        elif isinstance(event, Revoke):
            for partition in event.partitions:
                fresh.pop(partition, None)
        elif isinstance(event, Poll) and fresh:
            for partition, offsets, _ in event.batches:
                if partition in fresh:
                    group, index = fresh.pop(partition)
                    least, at = _before(acknowledged, (group, partition), index)
                    if least is not None and offsets[0] < least:
                        text = f"{event.process} of {group} began {partition} at {offsets[0]}"
                        yield Anomaly(
                            "lost-commit", f"{text}, and {least} had been acknowledged", (at, index, entry.index)
                        )
