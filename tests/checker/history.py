"""The history of a run: requests of clients and their outcomes as typed events in time order, one JSON object per line.

An operation that takes time has two events: the request (`Send`, `End`, `Commit`, `Fetch`) and the outcome (`Sent`,
`Ended`, `Committed`, `Fetched`). An operation may or may not have happened if its outcome is missing or "unknown".
Values are numbers, and each record has its own value. Partitions are named as in `topic-0`. A process is one life of a
client; a restarted client has a new name. The last event of a run is `RunEnded`; a history without it was cut off.
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
    "EndOffset",
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
"""Prefix for the names of the clients that read everything once more after the run."""

Outcome: TypeAlias = Literal["ok", "failed", "unknown"]
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_uncommitted", "read_committed")
Batch: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A partition, the offsets of its records, and their values."""
Origin: TypeAlias = tuple[int, int, int, int, int]
"""First and last offset of a batch in the log, producer id, producer epoch, and sequence of the first record."""


@dataclass(frozen=True, slots=True)
class Send:
    """A request to a producer to send records, each to a partition.

    `sources` are the values from which a processor made the records, if it did.
    """

    process: str
    operation: int
    records: tuple[tuple[str, int], ...]
    transaction: int | None = None
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of the `Send` with the same process and operation, with the records in the same order.

    "failed" means that the record is certainly not in the log.
    """

    process: str
    operation: int
    outcomes: tuple[Outcome, ...]
    offsets: tuple[int | None, ...]
    errors: tuple[str, ...] = ()
    """The names of the errors that the client reported, as in `_MSG_TIMED_OUT`; each name once."""


@dataclass(frozen=True, slots=True)
class End:
    """A request to a producer to commit or to abort its transaction."""

    process: str
    transaction: int
    commits: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of the `End` with the same process and transaction.

    "ok" means that the transaction ended as requested, "failed" that it was certainly not committed.
    """

    process: str
    transaction: int
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class Assign:
    """An assignment to a consumer: partitions and start offsets. None stands for the group's committed offset."""

    process: str
    positions: tuple[tuple[str, int | None], ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Revoke:
    """A revocation: the consumer no longer owns these partitions."""

    process: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """The records that a consumer received, in order within each partition."""

    process: str
    isolation: Isolation
    batches: tuple[Batch, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Origins:
    """The writers of the batches that a consumer read in a partition, as in the batch headers."""

    process: str
    partition: str
    batches: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """A request of a consumer, or of a transaction, to commit its group's offsets. Each offset is the next one to
    read."""

    process: str
    operation: int
    group: str
    offsets: tuple[tuple[str, int], ...]
    transaction: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of the `Commit` with the same process and operation. For a commit in a transaction, see `Ended`."""

    process: str
    operation: int
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A request for a group's committed offsets."""

    process: str
    operation: int
    group: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to the `Fetch` with the same process and operation. None stands for a partition without a commit."""

    process: str
    operation: int
    offsets: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True)
class EndOffset:
    """The high watermark of a partition, as the answer to a request for the end of the log showed it."""

    process: str
    partition: str
    offset: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was injected into the broker."""

    process: str
    what: str


@dataclass(frozen=True, slots=True)
class PowerCut:
    """A power loss of the broker's machine that may take unsynced data.

    In each partition it may take the records at and after the offset in `synced`, and any part of all other data. A run
    in which no data may be lost has no such event.
    """

    process: str
    synced: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The end of the run. An empty reason means a complete run: producers had ended, and all records were read."""

    process: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error that a client reported and that fits no other event."""

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
    | EndOffset
    | Fault
    | PowerCut
    | Problem
    | RunEnded
)
_CLASSES: dict[str, type[Event]] = {each.__name__: each for each in get_args(Event)}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event, its position in the history, and its time in milliseconds after the first event."""

    index: int
    time_ms: int
    event: Event


class Recorder:
    """A writer that appends events to a file; threads and processes of one machine may append at the same time.

    The event of a request must be recorded before the request, and the event of an outcome after the outcome. Then the
    recorded times give a real order. Recorded events remain after the process dies.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def record(self, event: Event) -> None:
        """Appends the event with the current time."""
        # All processes of a machine share this clock.
        fields = {"time_ns": time.monotonic_ns(), "event": type(event).__name__, **_fields(event)}
        # The newline before the event keeps it apart from a line that a killed process left unfinished.
        os.write(self._descriptor, f"\n{json.dumps(fields, separators=(',', ':'))}\n".encode())

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def read_history(path: Path) -> list[Entry]:
    """Returns the entries of a file that a `Recorder` wrote, in time order. Raises KeyError or TypeError for other
    files."""
    found: list[tuple[int, Event]] = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                fields = json.loads(line)
            except json.JSONDecodeError:
                continue  # an empty line, or the unfinished line of a killed process
            time_ns = fields.pop("time_ns")
            event = _CLASSES[fields.pop("event")](**{name: _with_tuples(value) for name, value in fields.items()})
            found.append((time_ns, event))
    found.sort(key=lambda each: each[0])
    return [Entry(index, (each[0] - found[0][0]) // 1_000_000, each[1]) for index, each in enumerate(found)]


def entries_of(events: Iterable[Event]) -> list[Entry]:
    """Returns the entries of a history that is made by hand, with one event per millisecond."""
    return [Entry(index, index, event) for index, event in enumerate(events)]


def to_json(event: Event) -> str:
    """Returns the event without its time, as one line."""
    return json.dumps({"event": type(event).__name__, **_fields(event)}, separators=(",", ":"))


def _fields(event: Event) -> dict[str, Any]:
    return {each.name: getattr(event, each.name) for each in dataclasses.fields(event)}


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
