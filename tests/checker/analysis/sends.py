"""Non-monotonic sends: what one producer sends to a partition is there in the order in which it was sent (I10).

In each epoch of the producer: a client that has given up on a record begins a new one, and may send again what the one
before has written (`duplicates.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record, Writer

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """`int-nonmonotonic-send` within one operation or transaction, `nonmonotonic-send` otherwise.

    Where a producer was not told the offset it is taken from who read the record.
    """
    last: dict[tuple[str, str, Writer | None], tuple[Record, int]] = {}
    for record in facts.records.values():  # in the order in which they were sent
        for writer, offset in _places(facts, record):
            key = record.process, record.partition, writer
            previous = last.get(key)
            if previous is not None and offset <= previous[1]:
                earlier = previous[0]
                is_internal = earlier.index == record.index or (
                    record.transaction is not None and record.transaction is earlier.transaction
                )
                yield Anomaly(
                    "int-nonmonotonic-send" if is_internal else "nonmonotonic-send",
                    f"{record.process} sent {earlier.value} and then {record.value} to {record.partition};"
                    f" they are at {previous[1]} and {offset}",
                    tuple(sorted({earlier.index, record.index})),
                    frozenset({earlier.value, record.value}),
                )
            last[key] = record, offset


def _places(facts: Facts, record: Record) -> Iterator[tuple[Writer | None, int]]:
    """Where the record is, at one place for each epoch in which it was written."""
    found: dict[Writer | None, int] = {}
    if record.offset is not None and facts.is_certain(record):
        found[facts.writer(record.partition, record.offset)] = record.offset
    for sights in facts.sights.values():
        for sight in sights.get(record.value, ()):
            if sight.partition == record.partition:
                found.setdefault(facts.writer(sight.partition, sight.offset), sight.offset)
    yield from found.items()
