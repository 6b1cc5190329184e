"""Non-monotonic sends: the log has one producer's records of a partition in the order in which they were sent (I10).

The order holds within each epoch of the producer. A client that has given up on a record begins a new epoch, and may
then send records again that the epoch before has written (`duplicates.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record, Writer

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `int-nonmonotonic-send` within one operation or transaction, and `nonmonotonic-send` otherwise.

    If the producer was not told the offset, the offset comes from a consumer that read the record.
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
    """Yields the record's offsets, one for each epoch in which it was written."""
    found: dict[Writer | None, int] = {}
    if record.offset is not None and facts.is_certain(record):
        found[facts.writer(record.partition, record.offset)] = record.offset
    for sights in facts.sights.values():
        for sight in sights.get(record.value, ()):
            if sight.partition == record.partition:
                found.setdefault(facts.writer(sight.partition, sight.offset), sight.offset)
    yield from found.items()
