"""Short helpers for histories made by hand. The partition is `r-0` by default, and values are 1, 2, 3 and so on."""

from __future__ import annotations

from collections.abc import Sequence

from tests.checker.check import check
from tests.checker.history import (
    Assign,
    Batch,
    Commit,
    Committed,
    End,
    Ended,
    Event,
    Fetch,
    Fetched,
    Isolation,
    Origins,
    Outcome,
    Poll,
    RunEnded,
    Send,
    Sent,
    entries_of,
)

__all__ = [
    "committed",
    "ended",
    "fetch",
    "kinds",
    "origins",
    "polled",
    "read",
    "sent",
    "transaction",
]

PARTITION = "r-0"


def kinds(events: Sequence[Event], *, ended_early: bool = False) -> list[str]:
    """Returns the kinds of anomalies in the history, sorted. The run is complete unless `ended_early` is set."""
    whole = [*events] if ended_early else [*events, RunEnded("run")]
    return sorted(anomaly.kind for anomaly in check(entries_of(whole))[1])


def sent(
    *records: tuple[int, int | None],
    process: str = "producer",
    partition: str = PARTITION,
    number: int | None = None,
    outcome: Outcome = "ok",
    sources: Sequence[int] = (),
    errors: Sequence[str] = (),
) -> list[Event]:
    """Returns an operation that sent (value, offset) each, in a transaction if `number` is given.

    The first value is the operation's number.
    """
    operation = records[0][0]
    values = tuple((partition, value) for value, _ in records)
    offsets = tuple(offset for _, offset in records)
    return [
        Send(process, operation, values, number, tuple(sources)),
        Sent(process, operation, (outcome,) * len(records), offsets, tuple(errors)),
    ]


def ended(number: int, *, commits: bool = True, outcome: Outcome = "ok", process: str = "producer") -> list[Event]:
    """Returns the end of a transaction."""
    return [End(process, number, commits), Ended(process, number, outcome)]


def transaction(
    *records: tuple[int, int | None], number: int = 1, commits: bool = True, outcome: Outcome = "ok"
) -> list[Event]:
    """Returns a whole transaction."""
    return [*sent(*records, number=number), *ended(number, commits=commits, outcome=outcome)]


def polled(
    *records: tuple[int, int],
    process: str = "consumer",
    isolation: Isolation = "read_committed",
    group: str | None = None,
    partition: str = PARTITION,
) -> list[Event]:
    """Returns one poll that received (value, offset) each."""
    batch: Batch = (partition, tuple(offset for _, offset in records), tuple(value for value, _ in records))
    return [Poll(process, isolation, (batch,), group)]


def origins(
    *batches: tuple[int, int, int, int, int], process: str = "reader", partition: str = PARTITION
) -> list[Event]:
    """Returns batches that were read: first and last offset, producer id, epoch, first sequence."""
    return [Origins(process, partition, batches)]


def read(
    *records: tuple[int, int], uncommitted: Sequence[tuple[int, int]] | None = None, partition: str = PARTITION
) -> list[Event]:
    """Returns the last reads of a partition, with (value, offset) of each record.

    `uncommitted` are the records for read_uncommitted, if they differ.
    """
    every: tuple[tuple[Isolation, Sequence[tuple[int, int]]], ...] = (
        ("read_committed", records),
        ("read_uncommitted", records if uncommitted is None else uncommitted),
    )
    events: list[Event] = []
    for isolation, found in every:
        name = f"last-{isolation}-{partition}"
        events.append(Assign(name, ((partition, 0),)))
        if found:
            events += polled(*found, process=name, isolation=isolation, partition=partition)
    return events


def committed(
    offset: int,
    *,
    group: str = "group",
    process: str = "member",
    outcome: Outcome = "ok",
    number: int | None = None,
    operation: int = 0,
) -> list[Event]:
    """Returns a group's commit. A commit in a transaction has the transaction's outcome."""
    events: list[Event] = [Commit(process, operation, group, ((PARTITION, offset),), number)]
    if number is None:
        events.append(Committed(process, operation, outcome))
    return events


def fetch(offset: int | None, *, group: str = "group") -> list[Event]:
    """Returns a request for the group's committed offset, and the answer `offset`."""
    return [Fetch("reader", 0, group), Fetched("reader", 0, ((PARTITION, offset),))]
