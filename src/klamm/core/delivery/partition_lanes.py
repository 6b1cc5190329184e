"""The records of one partition that are not done with, and the order among them.

A record is queued, then ready (it may start), then running, then finished; a failed record waits and is ready again.
Records with the same lane key form a lane: only the first unfinished record of a lane may be ready, run or wait, so the
records of a lane run one at a time and in the order of their offsets. A record without a lane key has no order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Final

from klamm.core.delivery.commit_text import KEPT_KEY_BYTES, CommitNote, RangeRoom
from klamm.core.delivery.hold_up import HoldUp
from klamm.core.delivery.range_bytes import OffsetRange
from klamm.core.delivery.record_window import PATIENCE_MS, RecordWindow
from klamm.core.delivery.work import Received, Work
from klamm.protocol.types import Millis, Offset, TopicPartition

__all__ = ["PartitionLanes"]


_NO_LANE: Final[deque[Work]] = deque()


class PartitionLanes:
    """A partition during one ownership. A partition that comes back later is another object, so a result that arrives
    too late belongs to an object that is gone.
    """

    __slots__ = (
        "_far",
        "_has_room",
        "_hold_up",
        "_is_keyed",
        "_lanes",
        "_pending",
        "_ready",
        "_recovered",
        "_room",
        "_started",
        "changes",
        "committed_changes",
        "end",
        "has_turn",
        "is_gone",
        "is_paused",
        "is_revoked",
        "name",
        "ready_since_ms",
        "running",
        "size_bytes",
        "unfinished",
        "waiting",
    )

    def __init__(
        self,
        name: TopicPartition,
        position: Offset | None,
        finished: Iterable[OffsetRange],
        room: RangeRoom,
        held: Iterable[bytes] = (),
    ) -> None:
        """Begins an ownership. The `held` lanes start nothing before `go_on`: a run of an earlier ownership goes on."""
        self.name = name
        self.end = position
        """The offset behind the last record that was received; None if nothing was committed and nothing received."""
        self.unfinished = 0
        self.size_bytes = 0
        """The bytes of unfinished records."""
        self.running = 0
        self.waiting = 0
        """Failed records that wait for their next attempt."""
        self.changes = self.committed_changes = 0
        """Numbers of the last change, and of the last change that a commit contains."""
        self.is_paused = False
        self.is_revoked = False
        """Whether no further record starts, because the partition goes to another member."""
        self.is_gone = False
        self.has_turn = False
        """Whether the partition is in the queue of partitions with ready records."""
        self.ready_since_ms = 0.0
        self._hold_up = HoldUp()
        self._room = room
        self._is_keyed = True
        self._has_room = False
        """Whether there is room for all records of `_pending`. It stays true until more come: the position rises."""
        self._recovered = deque(finished)
        """Finished records that were not received yet: an earlier owner finished them."""
        self._pending: deque[Work] = deque()
        """All received records from the position on, in order; the first one is not finished."""
        self._lanes: dict[bytes, deque[Work] | None] = dict.fromkeys(held)
        """The records behind the first one of each lane; None instead of an empty queue."""
        self._ready: list[tuple[Offset, Work]] = []
        """A heap: the record with the lowest offset starts first, as the position waits for it."""
        self._started = 0
        """How many records of `_pending` have been begun, or are finished."""
        self._far: int = self._recovered[-1][1] - 1 if self._recovered else -1
        """The highest offset that was begun or is finished."""

    # Records come in

    def receive(self, received: Sequence[Received], is_keyed: bool, lane: bytes | None, now_ms: float) -> None:
        """Takes records, in the order of their offsets. Without `is_keyed` all records have the same lane."""
        self._is_keyed = is_keyed
        lanes, ready, pending = self._lanes, self._ready, self._pending
        was_ready = bool(ready)
        for offset, key, size_bytes, record in received:
            if is_keyed:
                lane = key
            work = Work(self, offset, size_bytes, record, lane, now_ms)
            if self._recovered and self._was_finished(offset):
                self._skip(work)
                continue
            pending.append(work)
            self.unfinished += 1
            self.size_bytes += size_bytes
            if lane is None:
                heappush(ready, (offset, work))
                continue
            queue = lanes.get(lane, _NO_LANE)
            if queue is _NO_LANE:
                lanes[lane] = None
                heappush(ready, (offset, work))
            elif queue is None:
                lanes[lane] = deque([work])
            else:
                queue.append(work)
        self.end = Offset(received[-1].offset + 1)
        self.limit_room(self._room)
        if ready and not was_ready:
            self.ready_since_ms = now_ms
        self.changes += 1

    def _was_finished(self, offset: Offset) -> bool:
        while self._recovered and self._recovered[0][1] <= offset:
            self._recovered.popleft()
        return bool(self._recovered) and self._recovered[0][0] <= offset

    def _skip(self, work: Work) -> None:
        work.is_finished = True
        work.record = None
        if self._pending:
            self._pending.append(work)
            self._started += 1
            self._far = max(self._far, work.offset)

    # Records start

    @property
    def startable(self) -> Work | None:
        """The record that starts next, if one may start."""
        if not self._ready or self.is_revoked:
            return None
        work = self._ready[0][1]
        return work if self._has_room or self._is_within_room(work) else None

    @property
    def has_ready(self) -> bool:
        """Whether a record may start, if the commit's text has room for it."""
        return bool(self._ready)

    def can_fill(self, most: int) -> bool:
        """Returns whether `most` records could start as one run: ready records, and the next ones in their lanes."""
        count = len(self._ready)
        if count >= most:
            return True
        for _, work in self._ready:
            if work.lane is not None and (queue := self._lanes[work.lane]):
                count += len(queue)
        return count >= most

    def start_one(self, work: Work) -> list[Work]:
        """Starts the record that `startable` has returned."""
        heappop(self._ready)
        run: list[Work] = []
        self._begin(work, run)
        return run

    def start(self, most: int, now_ms: float) -> list[Work]:
        """Starts the next records, at most `most`, and returns them in order. `startable` is one of them."""
        run: list[Work] = []
        while len(run) < most and (work := self.startable) is not None:
            if work.is_alone and run:
                break
            heappop(self._ready)
            self._begin(work, run)
            if work.is_alone:
                break
            queue = self._lanes.get(work.lane) if work.lane is not None else None
            while queue and len(run) < most and not queue[0].is_alone and self._is_within_room(queue[0]):
                self._begin(queue.popleft(), run)
        self.ready_since_ms = now_ms
        return run

    def _begin(self, work: Work, run: list[Work]) -> None:
        if not work.is_begun:
            work.is_begun = True
            self._started += 1
            self._far = max(self._far, work.offset)
        work.attempts += 1
        if work is self._pending[0]:
            self.changes += 1  # the next commit says that the record at the position runs
        self.running += 1
        run.append(work)

    def limit_room(self, room: RangeRoom) -> None:
        """Sets the room for finished records in the commit's text."""
        self._room = room
        pending = self._pending
        self._has_room = bool(pending) and max(self._far, pending[-1].offset) - pending[0].offset < room.offsets

    def _is_within_room(self, work: Work) -> bool:
        """Returns whether the commit's text has room for any set of finished records if this record starts too.

        The record at the position needs no room: once it is finished, the position moves.
        """
        position = self._pending[0].offset
        return (
            work.is_begun
            or work.offset == position
            or (work.offset if work.offset > self._far else self._far) - position < self._room.offsets
            or self._started + len(self._recovered) < self._room.records
        )

    # Records end

    def finish(self, run: Sequence[Work]) -> None:
        """Takes records that are finished, and lets the next records of their lanes start."""
        pending = self._pending
        self.running -= len(run)
        self.unfinished -= len(run)
        for work in run:
            work.is_finished = True
            work.record = work.last_error = None
            self.size_bytes -= work.size_bytes
        while pending and pending[0].is_finished:
            pending.popleft()
            self._started -= 1
        if len(run) == 1:
            if (lane := run[0].lane) is not None:
                self.go_on(lane)
        else:
            for lane in dict.fromkeys(work.lane for work in run if work.lane is not None):
                self.go_on(lane)
        self.changes += 1

    def go_on(self, lane: bytes) -> None:
        """Makes the next record of a lane ready, because the one before it is finished or the lane is not held now."""
        queue = self._lanes[lane]
        if queue:
            self.make_ready(queue.popleft())
        else:
            del self._lanes[lane]

    def put_back(self, run: list[Work]) -> list[Work]:
        """Takes records whose run failed, and returns those that are the first of their lanes. The caller decides when
        they are ready again. The others are queued again.
        """
        self.running -= len(run)
        first: dict[bytes, Work] = {}
        alone = []
        others = []
        for work in run:
            if work.lane is None:
                alone.append(work)
            elif first.setdefault(work.lane, work) is not work:
                others.append(work)
        for work in reversed(others):
            assert work.lane is not None
            queue = self._lanes[work.lane]
            if queue is None:
                self._lanes[work.lane] = deque([work])
            else:
                queue.appendleft(work)
        return [*first.values(), *alone]

    def make_ready(self, work: Work) -> None:
        """Lets a record start."""
        heappush(self._ready, (work.offset, work))

    # What the commit says

    @property
    def position(self) -> Offset | None:
        """The end of the unbroken run of finished records: what a commit may contain. None if no record was seen."""
        if self._pending:
            return self._pending[0].offset
        if self._recovered and self.end is not None and self._recovered[0][0] <= self.end < self._recovered[0][1]:
            return self._recovered[0][1]
        return self.end

    def finished_ranges(self) -> tuple[OffsetRange, ...]:
        """Returns the finished records beyond the position. Offsets without a record between them are in their range.

        Records that an earlier owner finished are named again until they are received.
        """
        ranges: list[OffsetRange] = []
        start, end = None, Offset(0)
        for work in self._pending:
            if work.is_finished:
                start = work.offset if start is None else start
                end = Offset(work.offset + 1)
            elif start is not None:
                ranges.append((start, end))
                start = None
        if start is not None:
            ranges.append((start, end))
        known = self.end if self._pending else self.position
        for first, last in self._recovered:
            clipped = first if known is None else max(first, known)
            if clipped >= last:
                continue
            if ranges and ranges[-1][1] == clipped:
                ranges[-1] = (ranges[-1][0], last)
            else:
                ranges.append((clipped, last))
        return tuple(ranges)

    @property
    def held_since_ms(self) -> float | None:
        """The time since which the record at the position holds the commit up; None if all records are finished."""
        return self._hold_up.since_ms(self._pending[0]) if self._pending else None

    def look(self, now_ms: float) -> None:
        """Notes which record is at the position now: see `HoldUp`."""
        self._hold_up.look(self._pending[0] if self._pending else None, now_ms)

    def note(self) -> CommitNote:
        """Returns what the commit says in addition to the position."""
        finished = self.finished_ranges() if self._started or self._recovered else ()
        if not self._pending:
            return CommitNote(finished)
        held = self._pending[0]
        key, records = self.hot_key()
        since_ms = Millis(int(self._hold_up.since_ms(held)))
        return CommitNote(finished, self.unfinished, since_ms, held.attempts, key, records)

    def hot_key(self) -> tuple[bytes | None, int]:
        """Returns the beginning of the key with the most unfinished records, and how many; None if no key has two, or
        if keys have no lanes of their own.
        """
        if not self._is_keyed:
            return None, 0
        key, queue = max(self._lanes.items(), key=lambda lane: len(lane[1] or ()), default=(b"", None))
        return (key[:KEPT_KEY_BYTES], len(queue) + 1) if queue else (None, 0)

    def is_over_share(self, window: RecordWindow, partitions: int, now_ms: float) -> bool:
        """Returns whether to pause the partition, if the member has `partitions` partitions.

        A partition whose records soon have their turn is not paused: a client drops what it has fetched of a paused
        partition, and fetches it again.
        """
        if not window.is_full(self.unfinished, self.size_bytes, partitions):
            return False
        is_slow = now_ms - self._pending[0].received_ms >= PATIENCE_MS
        return is_slow or (partitions > 1 and window.is_full(self.unfinished, self.size_bytes, 2))

    def revoke(self) -> None:
        """Lets no further record start; those that run go on."""
        self.is_revoked = True

    def let_go(self, waiting: Iterable[Work]) -> set[bytes]:
        """Ends the ownership. A record that still runs keeps no other record in memory.

        `waiting` are the records that wait for their next attempt. Returns the lanes of which a record still runs, and
        those that were held all the time.
        """
        self.revoke()
        self.is_gone = True
        running = set(self._lanes)
        running.difference_update(work.lane for _, work in self._ready if work.lane is not None)
        running.difference_update(work.lane for work in waiting if work.lane is not None)
        self._ready.clear()
        self._pending.clear()
        self._lanes.clear()
        return running
