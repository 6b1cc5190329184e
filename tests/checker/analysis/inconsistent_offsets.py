"""Inconsistent offsets: two records at one place of the log (I3, I9)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `inconsistent-offsets` if producers and consumers report different values at one offset."""
    places: dict[tuple[str, int], dict[int, int]] = {}
    for record in facts.records.values():
        if record.offset is not None and facts.is_certain(record):
            index = record.index if record.done_index is None else record.done_index
            places.setdefault((record.partition, record.offset), {}).setdefault(record.value, index)
    for sights in facts.sights.values():
        for value, found in sights.items():
            for sight in found:
                places.setdefault((sight.partition, sight.offset), {}).setdefault(value, sight.index)
    for (partition, offset), values in places.items():
        if len(values) > 1:
            yield Anomaly(
                "inconsistent-offsets",
                f"{partition} has at {offset} the values {sorted(values)}",
                tuple(sorted(values.values())),
                frozenset(values),
            )
