"""Short words for histories that are made by hand: partition `r-0` unless said otherwise, values 1, 2, 3 and so on."""

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
    """What the checks find in the history of a run that came to its end, or that was cut off there; sorted."""
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
    """An operation that sent (value, offset) each, in a transaction if `number` is given; it is named by its first
    value."""
    operation = records[0][0]
    values = tuple((partition, value) for value, _ in records)
    offsets = tuple(offset for _, offset in records)
    return [
        Send(process, operation, values, number, tuple(sources)),
        Sent(process, operation, (outcome,) * len(records), offsets, tuple(errors)),
    ]


def ended(number: int, *, commits: bool = True, outcome: Outcome = "ok", process: str = "producer") -> list[Event]:
    """The end of a transaction."""
    return [End(process, number, commits), Ended(process, number, outcome)]


def transaction(
    *records: tuple[int, int | None], number: int = 1, commits: bool = True, outcome: Outcome = "ok"
) -> list[Event]:
    """A whole transaction."""
    return [*sent(*records, number=number), *ended(number, commits=commits, outcome=outcome)]


def polled(
    *records: tuple[int, int],
    process: str = "consumer",
    isolation: Isolation = "read_committed",
    group: str | None = None,
    partition: str = PARTITION,
) -> list[Event]:
    """One poll that returned (value, offset) each."""
    batch: Batch = (partition, tuple(offset for _, offset in records), tuple(value for value, _ in records))
    return [Poll(process, isolation, (batch,), group)]


def origins(
    *batches: tuple[int, int, int, int, int], process: str = "reader", partition: str = PARTITION
) -> list[Event]:
    """Batches that were read: first and last offset, producer id, epoch, first sequence."""
    return [Origins(process, partition, batches)]


def read(
    *records: tuple[int, int], uncommitted: Sequence[tuple[int, int]] | None = None, partition: str = PARTITION
) -> list[Event]:
    """The last reads of a partition: (value, offset) of each; `uncommitted`, if those who read all saw others."""
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
    """A commit of the group; in a transaction its outcome is the transaction's."""
    events: list[Event] = [Commit(process, operation, group, ((PARTITION, offset),), number)]
    if number is None:
        events.append(Committed(process, operation, outcome))
    return events


def fetch(offset: int | None, *, group: str = "group") -> list[Event]:
    """The group's committed offset is asked for, and is this one."""
    return [Fetch("reader", 0, group), Fetched("reader", 0, ((PARTITION, offset),))]
