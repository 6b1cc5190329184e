"""What clients did and what came of it, in the order in which it happened: typed events, one JSON object a line.

An operation that takes time is two events, what was asked (`Send`, `End`, `Commit`, `Fetch`) and what came of it
(`Sent`, `Ended`, `Committed`, `Fetched`). One whose second event is missing, or says "unknown", may or may not have
happened. Values are numbers that no two records have in common; partitions are named as in `topic-0`. A process is one
client's life: who begins anew has a new name. The last event of a run is `RunEnded`; a history without it was cut off.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

__all__ = [
    "ISOLATIONS",
    "LAST",
    "Assign",
    "Batch",
    "Commit",
    "Committed",
    "End",
    "Ended",
    "Entry",
    "Event",
    "Fault",
    "Fetch",
    "Fetched",
    "Isolation",
    "Origin",
    "Origins",
    "Outcome",
    "Poll",
    "PowerCut",
    "Problem",
    "Recorder",
    "Revoke",
    "RunEnded",
    "Send",
    "Sent",
    "entries_of",
    "read_history",
    "to_json",
]

LAST: Final = "last-"
"""With this the names of those begin who read everything once more when the run is over."""

Outcome: TypeAlias = Literal["ok", "failed", "unknown"]
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_uncommitted", "read_committed")
Batch: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A partition, the offsets of the records that came from it, and their values."""
Origin: TypeAlias = tuple[int, int, int, int, int]
"""Of a batch in the log: first and last offset, producer id, producer epoch, and sequence of its first record."""


@dataclass(frozen=True, slots=True)
class Send:
    """A producer is asked to send records, each to a partition; `sources`: the values they were made from, if any."""

    process: str
    operation: int
    records: tuple[tuple[str, int], ...]
    transaction: int | None = None
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of the records of the `Send` with the same process and operation, in their order.

    "failed" means that the record is certainly not in the log.
    """

    process: str
    operation: int
    outcomes: tuple[Outcome, ...]
    offsets: tuple[int | None, ...]
    errors: tuple[str, ...] = ()
    """The names of the errors that the client gave, as in `_MSG_TIMED_OUT`; each once."""


@dataclass(frozen=True, slots=True)
class End:
    """A producer is asked to commit or to abort its transaction."""

    process: str
    transaction: int
    commits: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of that: "ok" as it was asked; "failed" if it is certain that it was not committed."""

    process: str
    transaction: int
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class Assign:
    """From here on the consumer reads these partitions from these offsets; None: from where its group has committed."""

    process: str
    positions: tuple[tuple[str, int | None], ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Revoke:
    """The consumer has these partitions no more."""

    process: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """The consumer was handed these records, those of each partition in this order."""

    process: str
    isolation: Isolation
    batches: tuple[Batch, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Origins:
    """Who wrote what a consumer reads in a partition, as the headers of the batches say."""

    process: str
    partition: str
    batches: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """A consumer, or a transaction, is asked to commit offsets of its group: the next ones to read."""

    process: str
    operation: int
    group: str
    offsets: tuple[tuple[str, int], ...]
    transaction: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """What came of the `Commit` with the same process and operation; of one in a transaction `Ended` says it."""

    process: str
    operation: int
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A group's committed offsets are asked for."""

    process: str
    operation: int
    group: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to the `Fetch` with the same process and operation; None: nothing is committed."""

    process: str
    operation: int
    offsets: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something was done to the broker."""

    process: str
    what: str


@dataclass(frozen=True, slots=True)
class PowerCut:
    """The broker's machine loses its power, and may lose what was not synced: of each partition what is at its offset
    or beyond it, and of everything else any part. Where nothing may be lost there is no such event."""

    process: str
    synced: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over. Without a reason it came to its end: producers had ended, and all that is there was read."""

    process: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A client said that something is wrong, and it belongs to none of the above."""

    process: str
    error: str


Event: TypeAlias = (
    Send
    | Sent
    | End
    | Ended
    | Assign
    | Revoke
    | Poll
    | Origins
    | Commit
    | Committed
    | Fetch
    | Fetched
    | Fault
    | PowerCut
    | Problem
    | RunEnded
)
_CLASSES: dict[str, type[Event]] = {each.__name__: each for each in get_args(Event)}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event, its place in the history, and when it was, in milliseconds after the first."""

    index: int
    time_ms: int
    event: Event


class Recorder:
    """Adds events to a file as they happen; any number of threads and processes of one machine may do so at once.

    An event of what is asked has to be recorded before it is asked, and one of what came of it after it came: then
    the order of their times is a real one. What was recorded outlasts the process.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def record(self, event: Event) -> None:
        """Adds the event, with the time."""
        # The clock is the same for all processes.
        fields = {"time_ns": time.monotonic_ns(), "event": type(event).__name__, **_fields(event)}
        # A line that was cut off by the process's end must not take the next one with it.
        os.write(self._descriptor, f"\n{json.dumps(fields, separators=(',', ':'))}\n".encode())

    def close(self) -> None:
        """Nothing more will be recorded."""
        os.close(self._descriptor)


def read_history(path: Path) -> list[Entry]:
    """The entries of a file that a `Recorder` wrote, in their order. Raises KeyError or TypeError for other files."""
    found: list[tuple[int, Event]] = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                fields = json.loads(line)
            except json.JSONDecodeError:
                continue  # an empty line, or what a process that was killed had begun to write
            time_ns = fields.pop("time_ns")
            event = _CLASSES[fields.pop("event")](**{name: _with_tuples(value) for name, value in fields.items()})
            found.append((time_ns, event))
    found.sort(key=lambda each: each[0])
    return [Entry(index, (each[0] - found[0][0]) // 1_000_000, each[1]) for index, each in enumerate(found)]


def entries_of(events: Iterable[Event]) -> list[Entry]:
    """A history that is made by hand: one event each millisecond."""
    return [Entry(index, index, event) for index, event in enumerate(events)]


def to_json(event: Event) -> str:
    """The event without its time, on one line."""
    return json.dumps({"event": type(event).__name__, **_fields(event)}, separators=(",", ":"))


def _fields(event: Event) -> dict[str, Any]:
    return {each.name: getattr(event, each.name) for each in dataclasses.fields(event)}


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
