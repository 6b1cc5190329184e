"""Non-monotonic sends: what one producer sends to a partition is there in the order in which it was sent (I10)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """`int-nonmonotonic-send` within one operation or transaction, `nonmonotonic-send` otherwise.

    Where a producer was not told the offset it is taken from who read the record.
    """
    last: dict[tuple[str, str], tuple[Record, int]] = {}
    for record in facts.records.values():  # in the order in which they were sent
        offset = facts.offset(record)
        if offset is None:
            continue
        previous = last.get((record.process, record.partition))
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
        last[record.process, record.partition] = record, offset
