"""The content of a history by subject: each record that was sent, each transaction, and where each value was seen."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.checker.history import (
    LAST,
    Assign,
    Commit,
    Committed,
    End,
    Ended,
    Entry,
    Fetch,
    Fetched,
    Isolation,
    Origin,
    Origins,
    Outcome,
    Poll,
    PowerCut,
    Revoke,
    RunEnded,
    Send,
    Sent,
)

__all__ = ["Facts", "GroupCommit", "GroupFetch", "Record", "Sight", "Transaction", "Writer"]

Writer: TypeAlias = tuple[int, int]
"""Producer id and producer epoch."""
_TIMED_OUT = "_MSG_TIMED_OUT"
"""The error name that librdkafka gives for a record on which it has given up."""


@dataclass(slots=True)
class Record:
    """A record that a producer was asked to send."""

    value: int
    partition: str
    process: str
    index: int
    """Index of the event that asked for the record."""
    transaction: Transaction | None
    source: int | None
    outcome: Outcome = "unknown"
    offset: int | None = None
    """The offset in the broker's answer to the producer."""
    done_index: int | None = None


@dataclass(slots=True)
class Transaction:
    """A producer's transaction."""

    process: str
    number: int
    records: list[Record] = field(default_factory=list)
    commit_index: int | None = None
    """Index of the request to commit. None if no commit was requested; then its records must never be seen."""
    end_index: int | None = None
    outcome: Outcome = "unknown"

    @property
    def is_committed(self) -> bool:
        """Whether the producer was told that the transaction is committed."""
        return self.commit_index is not None and self.outcome == "ok"

    @property
    def is_aborted(self) -> bool:
        """Whether it is certain that the transaction was not committed."""
        return self.commit_index is None or self.outcome == "failed"


@dataclass(frozen=True, slots=True)
class Sight:
    """The place at which a value was seen."""

    partition: str
    offset: int
    index: int


@dataclass(slots=True)
class GroupCommit:
    """A request of a group's member, or of a transaction, to commit offsets, and its outcome."""

    group: str
    offsets: dict[str, int]
    index: int
    transaction: Transaction | None
    outcome: Outcome = "unknown"
    done_index: int | None = None

    @property
    def acknowledged_index(self) -> int | None:
        """The index of the event that confirms the commit, or None if the commit was not confirmed."""
        if self.transaction is not None:
            return self.transaction.end_index if self.transaction.is_committed else None
        return self.done_index if self.outcome == "ok" else None


@dataclass(frozen=True, slots=True)
class GroupFetch:
    """A group's committed offsets in the answer to a request at `asked_index`. The offset None stands for no commit."""

    group: str
    offsets: dict[str, int | None]
    asked_index: int
    index: int


class Facts:
    """The events of a history with indexes over them. A history that contradicts itself raises ValueError."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = list(entries)
        self.records: dict[int, Record] = {}
        self.transactions: dict[tuple[str, int], Transaction] = {}
        self.sights: dict[Isolation, dict[int, list[Sight]]] = {"read_committed": {}, "read_uncommitted": {}}
        """By isolation level and value: each (partition, offset) once, with the event in which it was seen first."""
        self.commits: list[GroupCommit] = []
        self.fetches: list[GroupFetch] = []
        self.reading: dict[str, list[Entry]] = defaultdict(list)
        """By consumer: its Assign, Revoke and Poll events."""
        self.origins: dict[str, dict[int, list[Origin]]] = defaultdict(dict)
        """By partition and first offset: the batches that were read there. In one log they are all the same."""
        self.gave_up: set[str] = set()
        """Producers whose client gave up on a record. The client then no longer guarantees the order of the records
        that follow."""
        self.may_lose = any(isinstance(entry.event, PowerCut) for entry in self.entries)
        """Whether a power loss may have taken unsynced data. In that case only the last reads count: records that were
        read before may be gone, and consumers return buffered records for a long time."""
        self._cuts: list[tuple[int, dict[str, int]]] = []
        self.is_whole = False
        """Whether the run came to its end, so that every record in the log has been read."""
        self.end_reason = "the history was cut off"
        """The reason why the run ended early; empty if it did not."""
        self._sends: dict[tuple[str, int], list[Record]] = {}
        self._commits: dict[tuple[str, int], GroupCommit] = {}
        self._fetches: dict[tuple[str, int], tuple[str, int]] = {}
        for entry in self.entries:
            self._add(entry)
        self._first_offsets = {partition: sorted(batches) for partition, batches in self.origins.items()}
        self.visible = self._visible()
        """By isolation level and partition: the offsets at which a consumer saw a record, in ascending order."""

    def offset(self, record: Record) -> int | None:
        """Returns the record's offset: the one that its producer was told, or else one at which a consumer saw it."""
        if record.offset is not None:
            return record.offset
        for sights in self.sights.values():
            for sight in sights.get(record.value, ()):
                return sight.offset
        return None

    def is_seen(self, value: int, isolation: Isolation) -> bool:
        """Returns whether a consumer with this isolation level saw the value."""
        return value in self.sights[isolation]

    def writer(self, partition: str, offset: int) -> Writer | None:
        """Returns the producer and the epoch that wrote the record at this offset, or None if no batch header was read
        for it."""
        firsts = self._first_offsets.get(partition, [])
        at = bisect_right(firsts, offset) - 1
        if at < 0:
            return None
        found = self.origins[partition][firsts[at]]
        _, last, producer_id, epoch, _ = found[-1]
        return (producer_id, epoch) if offset <= last else None

    def is_certain(self, record: Record) -> bool:
        """Returns whether no power loss can have taken an acknowledged record.

        No record of a transaction is certain. A coordinator that has lost a producer epoch can assign the same epoch
        again. The log then takes records of the second producer for duplicates of the first producer's records.
        """
        if not self.may_lose:
            return True
        if record.offset is None or record.transaction is not None:
            return False
        return all(cut < record.index or record.offset < synced.get(record.partition, 0) for cut, synced in self._cuts)

    def _transaction(self, process: str, number: int | None) -> Transaction | None:
        if number is None:
            return None
        return self.transactions.setdefault((process, number), Transaction(process, number))

    def _add(self, entry: Entry) -> None:  # noqa: PLR0912 - one branch for each kind of event
        event = entry.event
        if isinstance(event, Send):
            self._add_send(entry.index, event)
        elif isinstance(event, Sent):
            sent = self._sends[event.process, event.operation]
            for record, outcome, offset in zip(sent, event.outcomes, event.offsets, strict=True):
                record.outcome, record.offset, record.done_index = outcome, offset, entry.index
            if _TIMED_OUT in event.errors:
                self.gave_up.add(event.process)
        elif isinstance(event, End | Ended):
            transaction = self._transaction(event.process, event.transaction)
            assert transaction is not None
            if isinstance(event, Ended):
                transaction.outcome, transaction.end_index = event.outcome, entry.index
            elif event.commits:
                transaction.commit_index = entry.index
        elif isinstance(event, Commit):
            commit = GroupCommit(
                event.group, dict(event.offsets), entry.index, self._transaction(event.process, event.transaction)
            )
            self.commits.append(commit)
            self._commits[event.process, event.operation] = commit
        elif isinstance(event, Committed):
            commit = self._commits[event.process, event.operation]
            commit.outcome, commit.done_index = event.outcome, entry.index
        elif isinstance(event, Fetch):
            self._fetches[event.process, event.operation] = event.group, entry.index
        elif isinstance(event, Fetched):
            group, asked_index = self._fetches[event.process, event.operation]
            self.fetches.append(GroupFetch(group, dict(event.offsets), asked_index, entry.index))
        elif isinstance(event, Assign | Revoke | Poll | Origins) and not self._counts(event.process):
            pass
        elif isinstance(event, Assign | Revoke | Poll):
            self.reading[event.process].append(entry)
            if isinstance(event, Poll):
                self._add_poll(entry.index, event)
        elif isinstance(event, Origins):
            self._add_origins(event)
        elif isinstance(event, PowerCut):
            self._cuts.append((entry.index, dict(event.synced)))
        elif isinstance(event, RunEnded):
            self.is_whole, self.end_reason = not event.reason, event.reason

    def _add_send(self, index: int, event: Send) -> None:
        transaction = self._transaction(event.process, event.transaction)
        sources: tuple[int | None, ...] = event.sources or (None,) * len(event.records)
        sent = [
            Record(value, partition, event.process, index, transaction, source)
            for (partition, value), source in zip(event.records, sources, strict=True)
        ]
        for record in sent:
            if record.value in self.records:
                raise ValueError(f"value {record.value} was sent twice: the history tells nothing of its records")
            self.records[record.value] = record
        if transaction is not None:
            transaction.records += sent
        self._sends[event.process, event.operation] = sent

    def _add_poll(self, index: int, event: Poll) -> None:
        seen = self.sights[event.isolation]
        for partition, offsets, values in event.batches:
            for offset, value in zip(offsets, values, strict=True):
                sights = seen.setdefault(value, [])
                if not any(each.offset == offset and each.partition == partition for each in sights):
                    sights.append(Sight(partition, offset, index))

    def _counts(self, process: str) -> bool:
        return not self.may_lose or process.startswith(LAST)

    def _add_origins(self, event: Origins) -> None:
        known = self.origins[event.partition]
        for origin in event.batches:
            found = known.setdefault(origin[0], [])
            if origin not in found:
                found.append(origin)

    def _visible(self) -> dict[Isolation, dict[str, list[int]]]:
        visible: dict[Isolation, dict[str, list[int]]] = {}
        for isolation, sights in self.sights.items():
            offsets: dict[str, set[int]] = defaultdict(set)
            for each in sights.values():
                for sight in each:
                    offsets[sight.partition].add(sight.offset)
            visible[isolation] = {partition: sorted(found) for partition, found in offsets.items()}
        return visible
