"""Torn transactions: some records of a transaction were read as committed, others never (I12).

A commit of unknown outcome must also be complete or absent. In a run that ended early, a record counts as missing only
if a consumer must have passed it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `torn-transaction` if some records of a transaction were read as committed and others never were."""
    last = {partition: offsets[-1] for partition, offsets in facts.visible["read_committed"].items()}
    for transaction in facts.transactions.values():
        values = [record.value for record in transaction.records]
        missing = [
            record.value
            for record in transaction.records
            if not facts.is_seen(record.value, "read_committed") and (facts.is_whole or _was_passed(record, last))
        ]
        if not missing or len(missing) == len(values):
            continue
        seen = next((value for value in values if facts.is_seen(value, "read_committed")), None)
        if seen is None:
            continue
        indexes = {record.index for record in transaction.records if record.value in (seen, missing[0])}
        indexes.add(facts.sights["read_committed"][seen][0].index)
        indexes |= {index for index in (transaction.commit_index, transaction.end_index) if index is not None}
        yield Anomaly(
            "torn-transaction",
            f"transaction {transaction.number} of {transaction.process}: {len(missing)} of {len(values)} records were"
            f" never read, {missing[0]} among them, but {seen} was",
            tuple(sorted(indexes)),
            frozenset({seen, *missing}),
        )


def _was_passed(record: Record, last: dict[str, int]) -> bool:
    return record.offset is not None and record.offset <= last.get(record.partition, -1)
