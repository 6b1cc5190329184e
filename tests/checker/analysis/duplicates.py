"""Duplicates: one record at two offsets. Producers are idempotent, and nobody sends a value twice (I4, I10)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Sight

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """`duplicate`: a value that was seen at two places, or at another one than its producer was told; `phantom`: a
    value that nobody sent."""
    seen: dict[int, dict[tuple[str, int], Sight]] = {}
    for sights in facts.sights.values():
        for value, places in sights.items():
            for sight in places:
                seen.setdefault(value, {}).setdefault((sight.partition, sight.offset), sight)
    for value, by_place in seen.items():
        indexes = tuple(sorted(sight.index for sight in by_place.values()))
        record = facts.records.get(value)
        if record is None:
            yield Anomaly("phantom", f"{value} was read, and nobody sent it", indexes, frozenset({value}))
            continue
        found = set(by_place)
        if record.offset is not None:
            found.add((record.partition, record.offset))
        if len(found) > 1 or next(iter(found))[0] != record.partition:
            told = ", ".join(f"{partition} at {offset}" for partition, offset in sorted(found))
            yield Anomaly(
                "duplicate",
                f"{value}, sent once to {record.partition}, is in {told}",
                (record.index, *indexes),
                frozenset({value}),
            )
