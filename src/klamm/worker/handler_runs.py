"""The runs of one handler: decisions that several threads share, and what follows from the end of a run.

The thread that polls gives records in and takes commits out. Slots (tasks or threads) take runs, call the function and
report. `RecordDelivery` is not safe for threads, so each use holds the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Lock
from typing import Any, Final, Protocol

from klamm.core.delivery.record_delivery import Commit, Flow, RecordDelivery
from klamm.core.delivery.work import Received, Work
from klamm.protocol.types import Offset, TopicPartition
from klamm.worker.errors import RecordFailed, WorkerError
from klamm.worker.handler_plan import HandlerPlan
from klamm.worker.record import Record

__all__ = ["BuryRecord", "HandlerRuns"]

_logger = logging.getLogger(__name__)

_UNDECODABLE: Final = "the value does not decode"


class BuryRecord(Protocol):
    """Writes a dead letter, and calls `done` when it is written, with the error if it can't be written."""

    def __call__(
        self, plan: HandlerPlan, record: Record, error: BaseException, done: Callable[[BaseException | None], None]
    ) -> None: ...


class HandlerRuns:
    """One handler in one member of a group."""

    def __init__(
        self,
        plan: HandlerPlan,
        *,
        clock_ms: Callable[[], float],
        to_record: Callable[[Any], Record],
        bury: BuryRecord | None,
        stop: Callable[[BaseException], None],
    ) -> None:
        self.plan = plan
        self.clock_ms = clock_ms
        self.lock = Lock()
        self.delivery: RecordDelivery = plan.new_delivery()
        self.wake: Callable[[], None] = lambda: None
        """Called after a change that may let a run start, from any thread."""
        self.has_room: Callable[[], None] = lambda: None
        """Called when a full window has room again, from any thread."""
        self._is_waiting_for_room = False
        self._has_deadline = plan.retries.deadline is not None
        self._needs_time = plan.batch > 1 or self._has_deadline
        self._to_record = to_record
        self._decode = plan.decode if plan.pool is None else None  # processes decode for themselves
        self._bury = bury
        self._stop = stop
        self.succeeded = self.failed_attempts = self.dead = 0
        """Records that were handled, attempts that failed, and records that became dead letters."""

    # For slots

    def next_run(self, finished: Sequence[Work] = ()) -> tuple[list[Work], list[Record]] | None:
        """Takes a run that has succeeded, and returns the next one with its records; None if there is none now."""
        delivery = self.delivery
        while True:
            with self.lock:
                if finished:
                    delivery.succeed(finished)
                    self.succeeded += len(finished)
                    finished = ()
                    if self._is_waiting_for_room and not delivery.is_full:
                        self._is_waiting_for_room = False
                        self.has_room()
                now_ms = self.clock_ms() if self._needs_time or delivery.has_waiting else 0.0
                run = delivery.take(now_ms)
            if not run:
                return None
            # A retry may be late: the time of a first call begins when it is taken.
            if self._has_deadline and run[0].is_late(now_ms):
                self._end_late(run)
                continue
            records = self._records(run)
            if records is not None:
                return run, records

    def _records(self, run: list[Work]) -> list[Record] | None:
        """Returns the records of a run with decoded values. Records that do not decode are failed here."""
        to_record, decode = self._to_record, self._decode
        if decode is None and len(run) == 1:
            record = to_record(run[0].record)
            record.attempt = run[0].attempts
            return [record]
        records, bad = [], []
        error: BaseException | None = None
        for work in run:
            record = to_record(work.record)
            record.attempt = work.attempts
            if decode is not None:
                try:
                    record.value = decode(record.value)
                except BaseException as reason:  # errors of other languages' libraries are no Exceptions
                    bad.append(work)
                    error = reason
            records.append(record)
        if error is None:
            return records
        self._separate(run, bad, error)
        return None

    def take_out(self, run: Sequence[Work], positions: Collection[int], error: BaseException) -> None:
        """Takes a run whose handler was not called, because the records at these positions do not decode."""
        self._separate(run, [run[position] for position in positions], error)
        self.wake()

    def put_back(self, run: Sequence[Work]) -> None:
        """Takes a run whose handler was not called. Its records are as ready as before."""
        with self.lock:
            self.delivery.separate(run, (), self.clock_ms())
        self.wake()

    def _separate(self, run: Sequence[Work], bad: Collection[Work], error: BaseException) -> None:
        if len(run) > 1:
            with self.lock:
                self.delivery.separate(run, bad, self.clock_ms())
        else:
            error.add_note(_UNDECODABLE)
            self.fail(run, error, is_final=True)

    def fail(self, run: Sequence[Work], error: BaseException, *, is_final: bool = False) -> None:
        """Takes a run whose handler failed."""
        # The records are taken now: they may be gone with their partition at any moment.
        raw = [work.record for work in run]
        with self.lock:
            self.failed_attempts += 1
            if self._has_deadline:
                for work in run:
                    work.last_error = error
            lost = self.delivery.fail(run, self.clock_ms(), is_final=is_final)
        _logger.debug("%s failed: %r", self.plan.name, error)
        for work, message in zip(run, raw, strict=True):
            if work in lost:
                self._give_up(work, self._to_record(message), error)
        self.wake()

    def _end_late(self, run: Sequence[Work]) -> None:
        """Takes a record that got its slot after its deadline. It has no further attempt."""
        (work,) = run
        raw = work.record
        with self.lock:
            lost = self.delivery.give_up(run, self.clock_ms())
        if lost:
            error = work.last_error or TimeoutError("the deadline is over")
            self._give_up(work, self._to_record(raw), error)
        self.wake()

    def _give_up(self, work: Work, record: Record, error: BaseException) -> None:
        record.attempt = work.attempts
        if self._bury is None or self.plan.dead_letters is None:
            with self.lock:
                self.delivery.abandon(work)
            failure = RecordFailed(
                f"{self.plan.name} failed for {record}, attempt {work.attempts}: {error!r}. "
                "Give the handler dead_letters=TOPIC to go on after such records"
            )
            failure.__cause__ = error
            self._stop(failure)
            return
        _logger.warning("%s: %s is a dead letter after %d attempts: %r", self.plan.name, record, work.attempts, error)

        def done(problem: BaseException | None) -> None:
            with self.lock:
                if problem is None:
                    self.delivery.succeed([work])
                    self.dead += 1
                else:
                    self.delivery.abandon(work)
            if problem is not None:
                self._stop(problem)
            self.wake()

        try:
            self._bury(self.plan, record, error, done)
        except Exception as problem:  # for example, the producer refuses a record that is too large
            refusal = WorkerError(
                f"the dead letter of {record} can't be written to {self.plan.dead_letters}: {problem}"
            )
            refusal.__cause__ = problem
            done(refusal)

    def crash(self, error: BaseException) -> None:
        """Ends the worker, because a slot can't go on."""
        self._stop(error)

    def cancelled(self, run: Sequence[Work]) -> None:
        """Takes a run that was stopped because its partition is gone."""
        with self.lock:
            self.delivery.cancel(run)
        self.wake()

    def next_ms(self) -> float | None:
        """Returns when a run may start without any other event."""
        with self.lock:
            return self.delivery.next_ms()

    # For the thread that polls

    def receive(self, partition: TopicPartition, received: Sequence[Received]) -> Offset | None:
        """Takes records of a partition. Returns from where to read it again if the log was cut, else None."""
        with self.lock:
            return self.delivery.receive(partition, received, self.clock_ms())

    def commits(self, partitions: Iterable[TopicPartition] | None = None) -> list[Commit]:
        """Returns what to commit."""
        with self.lock:
            return self.delivery.commits(partitions)

    def flow(self) -> Flow:
        """Returns which partitions to pause and to resume."""
        with self.lock:
            flow = self.delivery.flow(self.clock_ms())
        if flow.pause:
            self.wake()  # a batch of a paused partition waits for no more records
        return flow

    def wait_for_room(self) -> bool:
        """Returns whether the window is full. If it is, `has_room` is called when it has room again."""
        with self.lock:
            self._is_waiting_for_room = self.delivery.is_full
            return self._is_waiting_for_room
