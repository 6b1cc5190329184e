"""A correct in-memory log and its clients, which produce histories without anomalies.

The log does everything that a real system may do. Answers get lost; transactions stay open or end with an unknown
outcome; group members hand partitions on and repeat records that were not committed; and clients that gave up on a
record send other records again in a new epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.checker.history import (
    Assign,
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
    Revoke,
    RunEnded,
    Send,
    Sent,
)

__all__ = ["history"]

_PARTITIONS = ("r-0", "r-1")
_GROUP = "group"
_PRODUCERS = ("plain-1", "plain-2", "transactional-1", "transactional-2")


class _Open:
    """An open transaction."""

    def __init__(self, process: str, number: int) -> None:
        self.process = process
        self.number = number
        self.records: list[tuple[str, int]] = []


class _Log:
    """Partitions as lists: a slot holds (value, transaction or None), or None for a marker."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.events: list[Event] = []
        self.slots: dict[str, list[tuple[int, _Open | None] | None]] = {name: [] for name in _PARTITIONS}
        self.origins: dict[str, list[tuple[int, int, int]]] = {name: [] for name in _PARTITIONS}
        """Producer id, epoch and sequence of each slot."""
        self.epochs = dict.fromkeys(_PRODUCERS, 0)
        self.sequences: dict[tuple[str, str], int] = {}
        self.unanswered: dict[str, list[tuple[int, list[tuple[str, int]]]]] = {name: [] for name in _PRODUCERS}
        """Operations of plain producers that have no answer yet, with their records."""
        self.fates: dict[_Open, bool] = {}
        self.next_value = 0
        self.next_operation = 0
        self.open: dict[str, _Open] = {}
        self.next_transaction = 0
        self.positions: dict[tuple[str, str], int] = {}
        self.committed: dict[str, int] = {}
        self.owners: dict[str, str] = {}
        self.next_member = 0

    def operation(self) -> int:
        """Returns a new operation number."""
        self.next_operation += 1
        return self.next_operation

    def write(self, process: str, partition: str, value: int, transaction: _Open | None) -> int:
        """Appends a record and returns its offset."""
        sequence = self.sequences.get((process, partition), 0)
        self.sequences[process, partition] = sequence + 1
        self.origins[partition].append((_PRODUCERS.index(process), self.epochs[process], sequence))
        self.slots[partition].append((value, transaction))
        if transaction is not None:
            transaction.records.append((partition, value))
        return len(self.slots[partition]) - 1

    def begin_epoch(self, process: str) -> None:
        """Begins a new epoch of the producer, in which its sequences start again."""
        self.epochs[process] += 1
        for partition in _PARTITIONS:
            self.sequences.pop((process, partition), None)

    def give_up(self) -> None:
        """Gives up on a producer's first unanswered operation, and sends the records of the other unanswered operations
        again."""
        process = self.random.choice(_PRODUCERS[:2])
        if not self.unanswered[process]:
            return
        (operation, records), *others = self.unanswered[process]
        self.unanswered[process] = []
        nothing: tuple[int | None, ...] = (None,) * len(records)
        self.events.append(Sent(process, operation, _all("unknown", records), nothing, ("_MSG_TIMED_OUT",)))
        self.begin_epoch(process)
        for other, again in others:
            offsets = [self.write(process, partition, value, None) for partition, value in again]
            self.events.append(Sent(process, other, _all("ok", again), tuple(offsets)))

    def send(self, process: str, transaction: _Open | None) -> None:
        """Sends some records. The answer may be lost, and the records may be lost with it."""
        records = []
        for _ in range(self.random.randint(1, 4)):
            records.append((self.random.choice(_PARTITIONS), self.next_value))
            self.next_value += 1
        operation = self.operation()
        number = None if transaction is None else transaction.number
        self.events.append(Send(process, operation, tuple(records), number))
        is_answered = transaction is not None or self.random.random() < 0.7
        is_there = is_answered or self.random.random() < 0.5
        offsets: list[int | None] = []
        for partition, value in records:
            offset = self.write(process, partition, value, transaction) if is_there else None
            offsets.append(offset if is_answered else None)
        if is_answered:
            self.events.append(Sent(process, operation, _all("ok", records), tuple(offsets)))
        elif self.random.random() < 0.5:
            self.events.append(Sent(process, operation, _all("unknown", records), tuple(offsets), ("timed out",)))
        else:
            self.unanswered[process].append((operation, records))

    def send_plain(self) -> None:
        """Sends records without a transaction."""
        self.send(self.random.choice(_PRODUCERS[:2]), None)

    def send_in_transaction(self) -> None:
        """Sends records in the producer's open transaction, or in a new one."""
        process = self.random.choice(_PRODUCERS[2:])
        if process not in self.open:
            self.next_transaction += 1
            self.open[process] = _Open(process, self.next_transaction)
        self.send(process, self.open[process])

    def end(self) -> None:
        """Ends an open transaction: its producer requests the end, and the answer may be lost; or others abort it."""
        if not self.open:
            return
        transaction = self.open.pop(self.random.choice(sorted(self.open)))
        commits = self.random.random() < 0.6
        is_asked = commits or self.random.random() < 0.7
        is_answered = is_asked and self.random.random() < 0.8
        if is_asked:
            self.events.append(End(transaction.process, transaction.number, commits))
        self.fates[transaction] = commits and (is_answered or self.random.random() < 0.5)
        for partition in dict.fromkeys(partition for partition, _ in transaction.records):
            self.slots[partition].append(None)
            self.origins[partition].append(
                (_PRODUCERS.index(transaction.process), self.epochs[transaction.process], -1)
            )
        self.begin_epoch(transaction.process)
        if is_answered:
            self.events.append(Ended(transaction.process, transaction.number, "ok"))
        elif is_asked:
            self.events.append(Ended(transaction.process, transaction.number, "unknown", "timed out"))

    def visible(self, partition: str, isolation: Isolation, start: int) -> list[tuple[int, int]]:
        """Returns (offset, value) of each record from `start` on that this isolation level may read."""
        found = []
        for offset, slot in enumerate(self.slots[partition]):
            if slot is None:
                continue
            value, transaction = slot
            if transaction is not None and isolation == "read_committed":
                if transaction not in self.fates:
                    break
                if not self.fates[transaction]:
                    continue
            if offset >= start:
                found.append((offset, value))
        return found

    def poll(
        self, process: str, isolation: Isolation, partition: str, most: int | None, group: str | None = None
    ) -> None:
        """Reads the next records of a partition."""
        start = self.positions[process, partition]
        found = self.visible(partition, isolation, start)[:most]
        if found:
            batch = (partition, tuple(offset for offset, _ in found), tuple(value for _, value in found))
            self.events.append(Poll(process, isolation, (batch,), group))
            self.positions[process, partition] = found[-1][0] + 1

    def read(self) -> None:
        """Reads on with a reader, or moves the reader to another position."""
        isolation: Isolation = self.random.choice(("read_committed", "read_uncommitted"))
        partition = self.random.choice(_PARTITIONS)
        process = f"reader-{isolation}"
        if (process, partition) not in self.positions or self.random.random() < 0.1:
            start = self.random.randint(0, len(self.slots[partition]))
            self.positions[process, partition] = start
            self.events.append(Assign(process, ((partition, start),)))
        self.poll(process, isolation, partition, self.random.randint(1, 5))

    def hand_on(self) -> None:
        """Gives a partition of the group to a new owner, which begins at the committed offset."""
        partition = self.random.choice(_PARTITIONS)
        if partition in self.owners and self.random.random() < 0.5:  # else the owner has died
            self.events.append(Revoke(self.owners[partition], (partition,)))
        self.next_member += 1
        member = f"member-{self.next_member}"
        self.owners[partition] = member
        self.positions[member, partition] = self.committed.get(partition, 0)
        self.events.append(Assign(member, ((partition, None),), _GROUP))

    def work(self) -> None:
        """Reads on with a group member, which may commit, and may get an answer."""
        partition = self.random.choice(_PARTITIONS)
        member = self.owners.get(partition)
        if member is None:
            return self.hand_on()
        self.poll(member, "read_committed", partition, self.random.randint(1, 5), _GROUP)
        if self.random.random() < 0.6:
            self.commit(member, partition, is_answered=self.random.random() < 0.8)
        return None

    def commit(self, member: str, partition: str, *, is_answered: bool) -> None:
        """Commits the position of the member."""
        operation, offset = self.operation(), self.positions[member, partition]
        self.events.append(Commit(member, operation, _GROUP, ((partition, offset),)))
        if is_answered or self.random.random() < 0.5:
            self.committed[partition] = offset
        self.events.append(Committed(member, operation, "ok" if is_answered else "unknown"))

    def finish(self) -> None:
        """Ends all transactions and reads all records."""
        while self.open:
            self.end()
        isolations: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")
        for partition in _PARTITIONS:
            for isolation in isolations:
                process = f"last-{isolation}-{partition}"
                self.positions[process, partition] = 0
                self.events.append(Assign(process, ((partition, 0),)))
                self.poll(process, isolation, partition, None)
            if partition not in self.owners:
                self.owners[partition] = f"last-{partition}"
                self.positions[self.owners[partition], partition] = 0
            self.poll(self.owners[partition], "read_committed", partition, None, _GROUP)
            self.commit(self.owners[partition], partition, is_answered=True)
        self.events.append(Fetch("last", 0, _GROUP))
        self.events.append(Fetched("last", 0, tuple(self.committed.items())))
        for partition, written in self.origins.items():
            batches = tuple((offset, offset, *origin) for offset, origin in enumerate(written))
            self.events.append(Origins("last-origins", partition, batches))
        self.events.append(RunEnded("run"))


def _all(outcome: Outcome, records: Sequence[object]) -> tuple[Outcome, ...]:
    return (outcome,) * len(records)


def history(random: Random, steps: int) -> list[Event]:
    """Returns a history of `steps` random steps, followed by a complete end."""
    log = _Log(random)
    actions: list[Callable[[], None]] = [
        log.send_plain,
        log.send_in_transaction,
        log.send_in_transaction,
        log.end,
        log.read,
        log.read,
        log.hand_on,
        log.give_up,
        log.work,
        log.work,
    ]
    for _ in range(steps):
        random.choice(actions)()
    log.finish()
    return log.events
