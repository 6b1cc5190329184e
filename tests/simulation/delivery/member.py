"""One member in a world of workers: a process that polls, runs handlers, and commits, as `klamm.worker` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.delivery.checks import FIRST_WAIT_MS, LONGEST_WAIT_MS, Ownership
from tests.simulation.delivery.topic import PartitionLog
from tests.simulation.loop import Event, Process
from tests.simulation.violation import Violation

from klamm.core.delivery.commit_text import decode_note
from klamm.core.delivery.record_delivery import Commit, RecordDelivery
from klamm.core.delivery.record_window import RecordWindow
from klamm.core.delivery.retry_rule import Retry
from klamm.core.delivery.work import Work
from klamm.protocol.types import Offset, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.delivery.world import DeliveryWorld

__all__ = ["Member"]


class Member:
    """A member with its handlers."""

    def __init__(self, world: DeliveryWorld, name: str) -> None:
        self._world = world
        self._loop = world.loop
        self._plan = plan = world.plan
        self.name = name
        self.epoch = 0
        self.process = Process(self._loop)
        self.is_cut = False
        """Whether no request reaches the group, while the handlers go on."""
        self._delivery = RecordDelivery(
            order=plan.order,
            concurrency=plan.concurrency,
            retry=Retry(
                plan.attempts, first=FIRST_WAIT_MS / 1000, most=LONGEST_WAIT_MS / 1000, deadline=plan.deadline_s
            ),
            window=RecordWindow(plan.window_records, note_characters=plan.note_characters),
            batch=plan.batch,
            within_ms=plan.within_ms,
        )
        self._ownerships: dict[TopicPartition, Ownership] = {}
        self._positions: dict[TopicPartition, Offset] = {}
        self._paused: set[TopicPartition] = set()
        self._revoking: set[TopicPartition] = set()
        self._ends: dict[int, tuple[Event, list[Work]]] = {}
        """The ends of runs, by the identity of the first record."""
        self._wake: Event | None = None
        self._later(world.loop.between(0, plan.poll_ms), self._poll)
        self._later(plan.commit_ms, self._commit_at_intervals)

    @property
    def is_reachable(self) -> bool:
        """Whether the group can talk to the member."""
        return self.process.is_alive and not self.is_cut

    def _later(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> Event:
        return self._loop.call_later(delay_ms, partial(callback, *arguments), self.process)

    # Partitions come and go

    def assigned(self, log: PartitionLog) -> None:
        """Gets a partition from the group."""
        note = decode_note(log.committed or Offset(0), log.metadata, log.end)
        self._world.notes.add("%s gets %s at %s with %s", self.name, log.name, log.committed, note.finished)
        self._ownerships[log.name] = ownership = Ownership(self.name, log)
        self._world.checks.began(ownership)
        self._delivery.assign(log.name, log.committed, note.finished)
        self._positions[log.name] = log.committed or Offset(0)

    def revoke(self, partition: TopicPartition) -> None:
        """Is asked to give a partition back: drains it, commits, and gives it back."""
        if partition in self._revoking or partition not in self._ownerships:
            return
        self._world.notes.add("%s drains %s", self.name, partition)
        self._revoking.add(partition)
        self._delivery.revoke([partition])
        self._drain(partition, self._ownerships[partition], self._loop.now_ms + self._plan.drain_ms)

    def _drain(self, partition: TopicPartition, ownership: Ownership, until_ms: float) -> None:
        if ownership.is_over:
            return
        is_drained = self._delivery.is_drained([partition])
        if not is_drained and self._loop.now_ms < until_ms:
            self._later(10, self._drain, partition, ownership, until_ms)
            return
        ownership.was_drained = is_drained
        self._send(self._delivery.commits([partition]))
        self._later(2 * self._plan.commit_latency_ms, self._give_back, partition, ownership)

    def _give_back(self, partition: TopicPartition, ownership: Ownership) -> None:
        if self.is_cut:
            self._later(100, self._give_back, partition, ownership)
        elif not ownership.is_over:
            self._drop([partition])
            self._world.group.released(self, partition)

    def lose(self) -> None:
        """Learns that the group has removed the member, and joins again."""
        self._world.notes.add("%s has lost its partitions", self.name)
        self._drop(list(self._ownerships))
        self.epoch += 1
        self._world.group.join(self)

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        self._delivery.drop(partitions)
        for partition in partitions:
            ownership = self._ownerships.pop(partition)
            ownership.is_over = True
            if self._plan.is_cancellable:
                ownership.running.clear()
            self._revoking.discard(partition)
            self._paused.discard(partition)
        if self._plan.is_cancellable:
            for identity, (event, run) in list(self._ends.items()):
                if run[0].partition.name in partitions and run[0].partition.is_gone:
                    event.cancel()
                    del self._ends[identity]
                    self._delivery.cancel(run)
            self._pump()

    def crash(self) -> None:
        """Dies."""
        self._world.notes.add("%s crashes", self.name)
        self.process.kill()
        for ownership in self._ownerships.values():
            ownership.is_over = True
            ownership.running.clear()

    # Records

    def _poll(self) -> None:
        # Afterwards nothing new comes soon: slow handlers have time, and the world has fewer steps.
        self._later(self._plan.poll_ms * (1 if self._world.has_trouble else 10), self._poll)
        if self.is_cut:
            return
        now_ms = self._loop.now_ms
        for partition, ownership in self._ownerships.items():
            if partition in self._paused or partition in self._revoking or self._delivery.is_full:
                continue
            received = ownership.log.read(self._positions[partition], self._plan.poll_records, now_ms)
            if received:
                self._positions[partition] = Offset(received[-1].offset + 1)
                self._delivery.receive(partition, received, now_ms)
        flow = self._delivery.flow(now_ms)
        self._paused.update(flow.pause)
        self._paused.difference_update(flow.resume)
        most = self._plan.window_records + self._plan.poll_records
        if self._delivery.unfinished > most:
            raise Violation(0, f"{self.name} holds {self._delivery.unfinished} records, more than {most}")
        self._pump()

    def _pump(self) -> None:
        """Starts what may start."""
        loop = self._loop
        while run := self._delivery.take(loop.now_ms):
            bad = [work for work in run if work.record.is_undecodable]
            if bad and len(run) > 1:
                self._delivery.separate(run, bad, loop.now_ms)
                continue
            ownership = self._ownerships.get(run[0].partition.name)
            if ownership is None or run[0].partition.is_gone:
                raise Violation(24, f"{self.name} starts {run[0].offset} of {run[0].partition.name}, which is gone")
            if run[0].is_late(loop.now_ms):
                self._give_up(self._delivery.give_up(run, loop.now_ms), ownership)
                continue
            self._world.checks.started(ownership, run, loop.now_ms)
            is_slow = any(work.record.is_slow for work in run)
            duration_ms = self._plan.handler_ms * (20 if is_slow else 1) * (0.5 + loop.random.random())
            fails = loop.chance(self._plan.failure_rate) or any(work.record.is_poison for work in run) or bool(bad)
            if self._plan.is_cancellable and (deadline_ms := run[0].deadline_ms) is not None:
                left_ms = max(0.0, deadline_ms - loop.now_ms)
                duration_ms, fails = min(duration_ms, left_ms), fails or left_ms < duration_ms
            event = self._later(duration_ms, self._end, run, ownership, fails)
            self._ends[id(run[0])] = event, run
        next_ms = self._delivery.next_ms()
        if self._wake is not None:
            self._wake.cancel()
        self._wake = None if next_ms is None else self._loop.call_at(next_ms, self._pump, self.process)

    def _end(self, run: list[Work], ownership: Ownership, fails: bool) -> None:
        del self._ends[id(run[0])]
        offsets = [work.offset for work in run]
        ownership.running.difference_update(offsets)
        if not fails:
            self._finished(run, ownership)
            return
        is_final = any(work.record.is_undecodable for work in run)
        self._give_up(self._delivery.fail(run, self._loop.now_ms, is_final=is_final), ownership)
        self._pump()

    def _give_up(self, lost: Sequence[Work], ownership: Ownership) -> None:
        """Writes records to the dead letters."""
        for work in lost:
            if not work.record.is_undecodable and not ownership.is_over:
                self._world.checks.gave_up(ownership, work.offset, self._loop.now_ms)
            ownership.running.add(work.offset)
            event = self._later(self._loop.between(1, 50), self._bury, work, ownership)
            self._ends[id(work)] = event, [work]

    def _bury(self, work: Work, ownership: Ownership) -> None:
        """Has written a record to the dead letters."""
        del self._ends[id(work)]
        ownership.running.discard(work.offset)
        self._finished([work], ownership)

    def _finished(self, run: list[Work], ownership: Ownership) -> None:
        offsets = [work.offset for work in run]
        ownership.log.finished.update(offsets)
        if not ownership.is_over:
            ownership.finished.update(offsets)
        self._delivery.succeed(run)
        self._pump()

    # Commits

    def _commit_at_intervals(self) -> None:
        self._later(self._plan.commit_ms, self._commit_at_intervals)
        self._send(self._delivery.commits([each for each in self._delivery.partitions if each not in self._revoking]))

    def _send(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            if len(commit.metadata) > self._plan.note_characters:
                raise Violation(0, f"{len(commit.metadata)} characters of metadata: {commit}")
            ownership = self._ownerships.get(commit.partition)
            known = frozenset[Offset]() if ownership is None else ownership.known_finished
            self._later(self._plan.commit_latency_ms, self._arrive, self.epoch, commit, known, ownership)

    def _arrive(self, epoch: int, commit: Commit, known: frozenset[Offset], ownership: Ownership | None) -> None:
        world = self._world
        is_lost = self.is_cut or (world.has_trouble and self._plan.has_lost_commits and self._loop.chance(0.2))
        if not is_lost:
            world.notes.add("%s commits %s", self.name, commit)
        is_accepted = not is_lost and world.group.commit(self, epoch, commit, known)
        if not is_accepted and (ownership is None or not ownership.is_over):
            self._delivery.commit_failed([commit.partition])
