"""Aborted and uncommitted reads: records that should not have been seen, or not yet (Jepsen's G1a; I5, I11)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record
from tests.checker.history import Isolation

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """`aborted-read`: a record that was refused, or one of an aborted transaction read as committed;
    `uncommitted-read`: one that was read as committed before its producer had asked for that."""
    for isolation, sights in facts.sights.items():
        for value, places in sights.items():
            record = facts.records.get(value)
            if record is None:
                continue
            first = min(places, key=lambda sight: sight.index)
            kind, why = _wrong(record, isolation, first.index, may_lose=facts.may_lose)
            if kind:
                transaction = record.transaction
                indexes = [record.index, record.done_index, first.index]
                indexes += [] if transaction is None else [transaction.commit_index, transaction.end_index]
                yield Anomaly(
                    kind,
                    f"{value} was read with {isolation} in {first.partition} at {first.offset}: {why}",
                    tuple(sorted({index for index in indexes if index is not None})),
                    frozenset({value}),
                )


def _wrong(record: Record, isolation: Isolation, index: int, *, may_lose: bool) -> tuple[str, str]:
    if record.outcome == "failed":
        return "aborted-read", "its producer was told that it is not there"
    transaction = record.transaction
    if transaction is None or isolation == "read_uncommitted" or may_lose:
        return "", ""
    if transaction.is_aborted:
        return "aborted-read", f"transaction {transaction.number} of {transaction.process} was aborted"
    assert transaction.commit_index is not None
    if index < transaction.commit_index:
        return "uncommitted-read", f"transaction {transaction.number} of {transaction.process} was still open"
    return "", ""
