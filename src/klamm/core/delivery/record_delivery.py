"""All partitions of one handler: which records start now, what follows from success and failure, and what to commit.

Theory of operation. The caller gives records to `receive`, and calls `take` for what to handle now: a run, one record
or a batch, always of one partition. At most `concurrency` runs are outside at once. The caller reports each run once,
with `succeed` or `fail`. A record that has failed for the last time is returned by `fail`; it keeps its place in the
order until the caller has written it elsewhere and reports it with `succeed`.

`commits` returns the positions that have changed. `flow` returns which partitions to pause and to resume. When the
group takes a partition away, the caller calls `revoke`, waits until `is_drained` or until its time is over, commits
`commits` for the last time and calls `drop`. A partition that is lost already is dropped at once. Reports of runs of
a partition that was dropped have no effect on any commit. If the partition comes back meanwhile, the lanes of such runs
are held until the reports, so that two records of a key do not run at once.

Time is an argument, in milliseconds of the wall clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import Literal, NamedTuple

from klamm.core.delivery.commit_text import RangeRoom, encode_note
from klamm.core.delivery.partition_lanes import PartitionLanes
from klamm.core.delivery.range_bytes import OffsetRange
from klamm.core.delivery.record_window import RecordWindow
from klamm.core.delivery.retry_rule import Retry
from klamm.core.delivery.work import Received, Work
from klamm.protocol.types import Offset, TopicPartition

__all__ = ["Commit", "Flow", "Order", "RecordDelivery"]

Order = Literal["key", "partition", "none"]
"""Which records of a partition run one after another: those of the same key, all of them, or none. Records without a
key have no order among keys.
"""


class Commit(NamedTuple):
    """What to commit for one partition."""

    partition: TopicPartition
    offset: Offset
    metadata: str


class Flow(NamedTuple):
    """The partitions to pause and to resume."""

    pause: list[TopicPartition]
    resume: list[TopicPartition]


class RecordDelivery:
    """The records of one handler in one member of a group."""

    def __init__(
        self,
        *,
        order: Order = "key",
        concurrency: int = 1,
        retry: Retry | None = None,
        window: RecordWindow | None = None,
        batch: int = 1,
        within_ms: float = 0.0,
    ) -> None:
        self._is_keyed = order == "key"
        self._lane = b"" if order == "partition" else None
        self._concurrency = concurrency
        self._retry = retry or Retry()
        self.window = window or RecordWindow()
        self._batch = batch
        self._within_ms = within_ms
        self._room = RangeRoom.within(self.window.note_characters)
        self._partitions: dict[TopicPartition, PartitionLanes] = {}
        self._held: dict[TopicPartition, set[bytes]] = {}
        """The lanes of which a run of a dropped ownership goes on."""
        self._turns: deque[PartitionLanes] = deque()
        """Partitions with a record that may be able to start, in the order of their turns."""
        self._retries: list[tuple[float, int, Work]] = []
        """A heap of failed records, by the time of their next attempt."""
        self._retry_count = 0
        self.runs_outside = 0
        """Runs that were taken and not reported yet, those of dropped partitions included."""

    @property
    def partitions(self) -> dict[TopicPartition, PartitionLanes]:
        """The partitions that the member owns."""
        return self._partitions

    # Partitions come and go

    def assign(
        self, partition: TopicPartition, position: Offset | None, finished: Iterable[OffsetRange] = ()
    ) -> PartitionLanes:
        """Begins an ownership: at the committed position, if there is one, with what the commit names as finished."""
        lanes = PartitionLanes(partition, position, finished, self._room, self._held.get(partition, ()))
        self._partitions[partition] = lanes
        return lanes

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Starts no further record of these partitions."""
        for partition in partitions:
            if partition in self._partitions:
                self._partitions[partition].revoke()

    def is_drained(self, partitions: Iterable[TopicPartition]) -> bool:
        """Returns whether no record of these partitions runs."""
        owned = self._partitions
        return not any(partition in owned and owned[partition].running for partition in partitions)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Ends the ownership of partitions. Nothing more is committed for them, whatever still runs."""
        for partition in partitions:
            lanes = self._partitions.pop(partition, None)
            if lanes is None:
                continue
            waiting = [work for _, _, work in self._retries if work.partition is lanes] if lanes.waiting else []
            if running := lanes.let_go(waiting):
                self._held[partition] = running
        if any(work.partition.is_gone for _, _, work in self._retries):
            self._retries = [each for each in self._retries if not each[2].partition.is_gone]
            heapify(self._retries)

    # Records

    def receive(self, partition: TopicPartition, received: Sequence[Received], now_ms: float) -> Offset | None:
        """Takes records of a partition in the order of their offsets; those of a partition not owned are ignored.

        Returns None. If the records begin before the end of what was received, an offset: then nothing was taken, the
        ownership has begun again, and the caller reads the partition again from this offset.
        """
        lanes = self._partitions.get(partition)
        if lanes is None or lanes.is_revoked or not received:
            return None
        first, last = received[0].offset, received[-1].offset
        if (lanes.end is not None and first < lanes.end) or last - first < len(received) - 1:
            return self._begin_again(lanes, min(each.offset for each in received))
        lanes.receive(received, self._is_keyed, self._lane, now_ms)
        self._give_turn(lanes)
        return None

    def _begin_again(self, lanes: PartitionLanes, cut: Offset) -> Offset:
        """Begins the ownership again after the log was cut at an offset: by an unclean election, or because the topic
        was deleted. Records before the cut are still there; those beyond it are others now.
        """
        position, ranges = lanes.position, lanes.finished_ranges()
        self.drop([lanes.name])
        if position is None or cut <= position:
            position, ranges = cut, ()
        again = self.assign(lanes.name, position, [(start, min(end, cut)) for start, end in ranges if start < cut])
        again.is_paused = lanes.is_paused
        return position

    def take(self, now_ms: float) -> list[Work]:
        """Returns the records to handle now, as one run; an empty list if there is nothing to start."""
        if self._retries:
            self._end_waits(now_ms)
        if self.runs_outside >= self._concurrency:
            return []
        for _ in range(len(self._turns)):
            lanes = self._turns.popleft()
            lanes.has_turn = False
            if lanes.is_gone or (first := lanes.startable) is None:
                continue
            if self._batch == 1:
                run = lanes.start_one(first)
            elif self._waits_for_more(lanes, now_ms):
                self._give_turn(lanes)
                continue
            else:
                run = lanes.start(self._batch, now_ms)
            if self._retry.deadline is not None:
                for work in run:
                    if work.deadline_ms is None:
                        work.deadline_ms = self._retry.deadline_ms(now_ms)
            self.runs_outside += 1
            if lanes.has_ready and not lanes.has_turn:
                lanes.has_turn = True
                self._turns.append(lanes)
            return run
        return []

    def _waits_for_more(self, lanes: PartitionLanes, now_ms: float) -> bool:
        if now_ms >= lanes.ready_since_ms + self._within_ms:
            return False
        work = lanes.startable
        # Of a paused partition no more comes.
        is_filled = lanes.is_paused or (work is not None and work.is_alone) or lanes.can_fill(self._batch)
        return not is_filled

    def succeed(self, run: Sequence[Work]) -> None:
        """Takes a run whose records are finished."""
        self.runs_outside -= 1
        lanes = run[0].partition
        if lanes.is_gone:
            self._release_lanes(run)
        else:
            lanes.finish(run)
            self._give_turn(lanes)

    def _release_lanes(self, run: Sequence[Work]) -> None:
        """Takes the end of a run of a dropped partition. If the partition is back, its lanes are not held any more."""
        name = run[0].partition.name
        if (held := self._held.get(name)) is None:
            return
        lanes = self._partitions.get(name)
        for lane in {work.lane for work in run if work.lane in held}:
            held.remove(lane)
            if lanes is not None:
                lanes.go_on(lane)
        if not held:
            del self._held[name]
        if lanes is not None:
            self._give_turn(lanes)

    def fail(self, run: Sequence[Work], now_ms: float, *, is_final: bool = False) -> list[Work]:
        """Takes a run whose handler failed, and returns the records that are not tried again.

        Each of the returned records is a run of its own, which the caller reports with `succeed` once it is written
        elsewhere. The records of a failed batch are tried again one by one, each with a deadline of its own, because
        one record may have used up the time of all. With `is_final` there is no other attempt.
        """
        self.runs_outside -= 1
        lanes = run[0].partition
        if lanes.is_gone:
            self._release_lanes(run)
            return []
        lost = []
        for work in lanes.put_back(list(run)):
            delay_ms = self._retry.delay_ms(work.attempts)
            is_late = work.deadline_ms is not None and now_ms + delay_ms >= work.deadline_ms
            if len(run) == 1 and (is_final or is_late or work.attempts >= self._retry.attempts):
                lanes.running += 1
                self.runs_outside += 1
                lost.append(work)
                continue
            work.is_alone = True
            lanes.waiting += 1
            self._retry_count += 1
            heappush(self._retries, (now_ms + delay_ms, self._retry_count, work))
        for work in run:
            work.is_alone = True
            if len(run) > 1:
                work.deadline_ms = None
        lanes.changes += 1
        return lost

    def give_up(self, run: Sequence[Work], now_ms: float) -> list[Work]:
        """Takes a record whose time was over before its next call, which is no attempt. Returns what `fail` returns."""
        run[0].attempts -= 1
        return self.fail(run, now_ms, is_final=True)

    def separate(self, run: Sequence[Work], bad: Collection[Work], now_ms: float) -> None:
        """Takes a batch whose handler was not called, because some of its records are bad. Each bad record becomes a
        run of its own.
        """
        self.runs_outside -= 1
        lanes = run[0].partition
        if lanes.is_gone:
            self._release_lanes(run)
            return
        for work in run:
            work.attempts -= 1
            work.deadline_ms = None
            work.is_alone = work.is_alone or work in bad
        for work in lanes.put_back(list(run)):
            lanes.make_ready(work)
        lanes.ready_since_ms = now_ms
        self._give_turn(lanes)

    def abandon(self, work: Work) -> None:
        """Takes a record that `fail` has returned and that is written nowhere. It stays unfinished, and so do the later
        records of its key.
        """
        self.runs_outside -= 1
        if work.partition.is_gone:
            self._release_lanes([work])
        else:
            work.partition.running -= 1

    def cancel(self, run: Sequence[Work]) -> None:
        """Takes a run of a dropped partition that was stopped."""
        assert run[0].partition.is_gone, "a run of an owned partition ends with success or failure"
        self.runs_outside -= 1
        self._release_lanes(run)

    def next_ms(self) -> float | None:
        """Returns when `take` may return more without any other event; None if only an event can change it."""
        if self.runs_outside >= self._concurrency:
            return None
        times = [self._retries[0][0]] if self._retries else []
        if self._batch > 1:
            times += [lanes.ready_since_ms + self._within_ms for lanes in self._turns if lanes.startable is not None]
        return min(times, default=None)

    def _end_waits(self, now_ms: float) -> None:
        retries = self._retries
        while retries and retries[0][0] <= now_ms:
            work = heappop(retries)[2]
            lanes = work.partition
            lanes.waiting -= 1
            lanes.make_ready(work)
            self._give_turn(lanes)

    def _give_turn(self, lanes: PartitionLanes) -> None:
        if not lanes.has_turn and lanes.startable is not None:
            lanes.has_turn = True
            self._turns.append(lanes)

    # Commits and back-pressure

    @property
    def unfinished(self) -> int:
        """How many records are received and not finished."""
        return sum(lanes.unfinished for lanes in self._partitions.values())

    def commits(self, partitions: Iterable[TopicPartition] | None = None) -> list[Commit]:
        """Returns what has changed since the last commits, of all partitions or of these."""
        found = []
        for partition in list(self._partitions) if partitions is None else partitions:
            lanes = self._partitions.get(partition)
            if lanes is None or lanes.changes == lanes.committed_changes or lanes.position is None:
                continue
            lanes.committed_changes = lanes.changes
            text = encode_note(lanes.position, lanes.note(), self.window.note_characters)
            found.append(Commit(partition, lanes.position, text))
        return found

    def commit_failed(self, partitions: Iterable[TopicPartition]) -> None:
        """Lets the next `commits` contain these partitions again."""
        for partition in partitions:
            if partition in self._partitions:
                self._partitions[partition].committed_changes = -1

    @property
    def has_more(self) -> bool:
        """Whether the next `take` may return a run."""
        return bool(self._turns)

    @property
    def has_waiting(self) -> bool:
        """Whether a failed record waits for its next attempt."""
        return bool(self._retries)

    @property
    def is_full(self) -> bool:
        """Whether the partitions together hold as many records as they may: the caller reads no more for now."""
        records = size_bytes = 0
        for lanes in self._partitions.values():
            records += lanes.unfinished
            size_bytes += lanes.size_bytes
        return self.window.is_full(records, size_bytes)

    def flow(self, now_ms: float) -> Flow:
        """Returns which partitions to pause and to resume, and counts on it that this is done."""
        flow = Flow([], [])
        window, count, is_full = self.window, len(self._partitions), self.is_full
        for partition, lanes in self._partitions.items():
            lanes.look(now_ms)
            if not lanes.is_paused and (is_full or lanes.is_over_share(window, count, now_ms)):
                lanes.is_paused = True
                flow.pause.append(partition)
            elif lanes.is_paused and not is_full and window.has_room(lanes.unfinished, lanes.size_bytes, count):
                lanes.is_paused = False
                flow.resume.append(partition)
        return flow

    def limit_notes(self, characters: int) -> None:
        """Lets the text of commits be no longer than this, because the broker refuses longer ones."""
        self.window = replace(self.window, note_characters=characters)
        self._room = RangeRoom.within(characters)
        for lanes in self._partitions.values():
            lanes.limit_room(self._room)
            lanes.committed_changes = -1
