"""Lost writes and unseen records: acknowledged records that no consumer read (I4, I12, I26)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record, Transaction
from tests.checker.history import Isolation

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `lost-write` if a consumer with this isolation level read further in the partition, and `unseen`
    otherwise.

    Consumers with read_uncommitted must see every acknowledged record. Consumers with read_committed must see it too,
    if it was sent without a transaction or in a committed one. One seen record of a transaction proves that the
    transaction was committed. In a run that ended early, consumers may not have reached the record, so `unseen` is not
    reported.
    """
    last = {
        isolation: {partition: offsets[-1] for partition, offsets in partitions.items()}
        for isolation, partitions in facts.visible.items()
    }
    committed = {id(each) for each in facts.transactions.values() if _is_committed(facts, each)}
    for record in facts.records.values():
        for isolation in facts.sights:
            if facts.is_seen(record.value, isolation) or not _must_be_seen(facts, record, isolation, committed):
                continue
            offset = facts.offset(record)
            was_passed = offset is not None and offset <= last[isolation].get(record.partition, -1)
            if not was_passed and not facts.is_whole:
                continue
            indexes = [record.index]
            if record.done_index is not None:
                indexes.append(record.done_index)
            if record.transaction is not None and record.transaction.end_index is not None:
                indexes.append(record.transaction.end_index)
            place = "" if offset is None else f" at {offset}"
            reach = last[isolation].get(record.partition)
            yield Anomaly(
                "lost-write" if was_passed else "unseen",
                f"{record.value}, acknowledged in {record.partition}{place}, was never read with {isolation},"
                f" which got to {'nothing' if reach is None else reach}",
                tuple(indexes),
                frozenset({record.value}),
            )


def _must_be_seen(facts: Facts, record: Record, isolation: Isolation, committed: set[int]) -> bool:
    if facts.may_lose:
        # A power loss may take a transaction's markers and its coordinator's state.
        return record.outcome == "ok" and isolation == "read_uncommitted" and facts.is_certain(record)
    if record.transaction is not None and id(record.transaction) in committed:
        return True
    if record.outcome != "ok":
        return False
    return record.transaction is None or isolation == "read_uncommitted"


def _is_committed(facts: Facts, transaction: Transaction) -> bool:
    if transaction.is_aborted:
        return False
    return transaction.is_committed or any(
        facts.is_seen(record.value, "read_committed") for record in transaction.records
    )
