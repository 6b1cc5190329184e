"""Aborted and uncommitted reads: records that must not be seen, or not yet (Jepsen's G1a; I5, I11)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record
from tests.checker.history import Isolation

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `aborted-read` for a refused record that was read, and for an aborted record that was read as committed.

    Yields `uncommitted-read` for a record that was read as committed before its producer requested the commit.
    """
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
