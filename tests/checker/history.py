"""What clients did and what came of it, in the order in which it happened: typed events, one JSON object a line.

An operation that takes time is two events, what was asked (`Send`, `End`, `Commit`) and what came of it (`Sent`,
`Ended`, `Committed`). One whose second event is missing, or says "unknown", may or may not have happened. Values are
numbers that no two records have in common; partitions are named as in `topic-0`. A process is one client's life: who
begins anew has a new name.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias

__all__ = [
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
    "Isolation",
    "Outcome",
    "Poll",
    "Problem",
    "Recorder",
    "Revoke",
    "Send",
    "Sent",
    "entries_of",
    "read_history",
]

Outcome: TypeAlias = Literal["ok", "failed", "unknown"]
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
Batch: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A partition, the offsets of the records that came from it, and their values."""


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
    """A group's committed offsets were asked for after the event `asked_after`, and these came; None: nothing there."""

    process: str
    group: str
    asked_after: int
    offsets: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something was done to the broker."""

    process: str
    what: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A client said that something is wrong, and it belongs to none of the above."""

    process: str
    error: str


Event: TypeAlias = Send | Sent | End | Ended | Assign | Revoke | Poll | Commit | Committed | Fetch | Fault | Problem
_CLASSES: dict[str, Any] = {
    each.__name__: each
    for each in (Send, Sent, End, Ended, Assign, Revoke, Poll, Commit, Committed, Fetch, Fault, Problem)
}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event, its place in the history, and when it was, in milliseconds after the first."""

    index: int
    time_ms: int
    event: Event

    def to_json(self) -> str:
        """One line."""
        fields = {each.name: getattr(self.event, each.name) for each in dataclasses.fields(self.event)}
        head = {"index": self.index, "time_ms": self.time_ms, "event": type(self.event).__name__}
        return json.dumps(head | fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Entry:
        """Reads a line of `to_json`. Raises KeyError or TypeError for anything else."""
        fields = {name: _with_tuples(value) for name, value in json.loads(line).items()}
        index, time_ms, kind = fields.pop("index"), fields.pop("time_ms"), fields.pop("event")
        return cls(index, time_ms, _CLASSES[kind](**fields))


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


class Recorder:
    """Writes events to a file as they happen, from any thread: their order in the file is a real one.

    An event of what is asked has to be recorded before it is asked, and one of what came of it after it came.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self.count = 0
        """How many there are so far."""

    def record(self, event: Event) -> int:
        """Adds the event and returns its index."""
        with self._lock:
            index = self.count
            self.count += 1
            entry = Entry(index, int((time.monotonic() - self._started) * 1000), event)
            self._file.write(entry.to_json() + "\n")
            return index

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_history(path: Path) -> Iterator[Entry]:
    """The entries of a file that a `Recorder` wrote."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield Entry.from_json(line)


def entries_of(events: Iterable[Event]) -> list[Entry]:
    """A history that is made by hand: one event each millisecond."""
    return [Entry(index, index, event) for index, event in enumerate(events)]
