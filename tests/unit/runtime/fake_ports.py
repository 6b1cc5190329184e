"""Provides the runtime's ports in memory: a log, a clock that tests advance, and ids that count.

Nothing in this module is random, and nothing waits for real time. A test, or a simulator with a seed, therefore sees
the same run each time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import Record, decode_batch, read_batch_header, restamp
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex
from klamm.runtime.ports import Runnable

__all__ = ["CountingIds", "LaterExecutor", "ManualTimers", "MemoryLog", "Pledge", "Pledges"]

START_MS = 1_700_000_000_000


class Alarm:
    """An alarm of the manual clock."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """A clock that tests advance; it calls each callback at the time for which the callback was registered."""

    def __init__(self) -> None:
        self._now_ms = 0.0
        self._order = count()
        self._alarms: list[tuple[float, int, Alarm]] = []
        self.wall_clock_offset_ms = 0
        self.step_ms = 0.0
        """The time that passes with each look at the clock: with some milliseconds, a load takes several steps."""

    def now_ms(self) -> float:
        self._now_ms += self.step_ms
        return self._now_ms

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Alarm:
        alarm = Alarm(callback)
        heappush(self._alarms, (deadline_ms, next(self._order), alarm))
        return alarm

    @property
    def waiting(self) -> int:
        """The number of alarms that have neither rung nor been cancelled."""
        return sum(alarm.callback is not None for _, _, alarm in self._alarms)

    def call_soon(self, callback: Callable[[], None]) -> Alarm:
        """Registers a callback for the next turn of the event loop, which begins with `advance` (also `advance(0)`)."""
        return self.call_at(self._now_ms, callback)

    def wall_clock(self) -> Millis:
        """Returns milliseconds since the epoch; a change of `wall_clock_offset_ms` makes the clock jump."""
        return Millis(START_MS + int(self._now_ms) + self.wall_clock_offset_ms)

    def advance(self, milliseconds: float) -> None:
        """Advances the clock, and rings each due alarm at its time."""
        end_ms = self._now_ms + milliseconds
        while self._alarms and self._alarms[0][0] <= end_ms:
            deadline_ms, _, alarm = heappop(self._alarms)
            self._now_ms = max(self._now_ms, deadline_ms)
            self._ring(alarm)
        self._now_ms = end_ms

    def stall(self, milliseconds: float) -> None:
        """Advances the clock as if the process stood still: alarms that become due ring late, at the end."""
        self._now_ms += milliseconds
        due = []
        while self._alarms and self._alarms[0][0] <= self._now_ms:
            due.append(heappop(self._alarms)[2])
        for alarm in due:
            self._ring(alarm)

    def _ring(self, alarm: Alarm) -> None:
        callback, alarm.callback = alarm.callback, None
        if callback is not None:
            callback()


class Pledge:
    """A promise without an event loop; a test reads its result."""

    def __init__(self) -> None:
        self.result: Any = None
        self.is_abandoned = False

    def done(self) -> bool:
        return self.result is not None or self.is_abandoned

    def set_result(self, result: Any, /) -> None:
        assert not self.done()
        self.result = result

    def __await__(self) -> Generator[Any, None, Any]:
        while not self.done():
            yield
        return self.result


class Pledges:
    """A factory of pledges."""

    def create_future(self) -> Pledge:
        return Pledge()


class LaterExecutor:
    """An executor that runs a task when the manual clock has advanced by `delay_ms`."""

    def __init__(self, timers: ManualTimers, delay_ms: float = 0) -> None:
        self._timers = timers
        self.delay_ms = delay_ms

    def submit(self, task: Runnable, done: Callable[[object], None]) -> None:
        def report() -> None:
            try:
                outcome = task.run()
            except Exception as error:
                outcome = error
            done(outcome)

        self._timers.call_at(self._timers.now_ms() + self.delay_ms, report)


class CountingIds:
    """A generator of consecutive member ids and uuids."""

    def __init__(self) -> None:
        self._count = count(1)

    def member_id(self, prefix: str) -> str:
        return f"{prefix}-{next(self._count)}"

    def uuid(self) -> str:
        return f"uuid-{next(self._count)}"


class Subscription:
    """A listener for the high watermark of one partition."""

    def __init__(self, listeners: list[Callable[[Offset], None]], callback: Callable[[Offset], None]) -> None:
        self._listeners = listeners
        self._callback = callback
        listeners.append(callback)

    def cancel(self) -> None:
        if self._callback in self._listeners:
            self._listeners.remove(self._callback)


class MemoryPartition:
    """The batches of one partition as bytes, each with its base offset and the offset after it."""

    def __init__(self) -> None:
        self.batches: list[tuple[Offset, Offset, bytes]] = []
        self.log_start_offset = Offset(0)
        self.log_end_offset = Offset(0)
        self.high_watermark = Offset(0)
        self.listeners: list[Callable[[Offset], None]] = []


class MemoryLog:
    """The partitions of one internal topic, in memory.

    With `holds_high_watermark` a record is committed only when a test calls `commit`, as with slow replicas. With
    `append_error` the log refuses every append with that error. With `appends_before_error` it takes so many appends
    and refuses the one after them.
    """

    def __init__(self, *, max_batch_bytes: int = 1_048_588, read_batches: int = 8) -> None:
        self.max_batch_bytes = max_batch_bytes
        self.read_batches = read_batches
        self.holds_high_watermark = False
        self.append_error: ErrorCode | None = None
        self.appends_before_error: int | None = None
        self.appends = 0
        self._partitions: dict[PartitionIndex, MemoryPartition] = {}

    def partition(self, partition: PartitionIndex) -> MemoryPartition:
        return self._partitions.setdefault(partition, MemoryPartition())

    def append(
        self, partition: PartitionIndex, batch: bytes, *, verification_guard: int = 0, transaction_version: int = 0
    ) -> Offset:
        self.appends += 1
        if self.append_error is not None:
            raise KafkaError(self.append_error)
        if self.appends_before_error is not None:
            self.appends_before_error -= 1
            if self.appends_before_error < 0:
                self.appends_before_error = None
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if len(batch) > self.max_batch_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE)
        log = self.partition(partition)
        base_offset = log.log_end_offset
        prefix, rest = restamp(batch, base_offset, LeaderEpoch(0))
        stamped = bytes(prefix) + bytes(rest)
        next_offset = read_batch_header(stamped).next_offset
        log.batches.append((base_offset, next_offset, stamped))
        log.log_end_offset = next_offset
        if not self.holds_high_watermark:
            self._raise_high_watermark(log, next_offset)
        return Offset(next_offset - 1)

    def commit(self, partition: PartitionIndex, up_to: int | None = None) -> None:
        """Raises the high watermark to the log end, or to an offset, as if the replicas had followed."""
        log = self.partition(partition)
        self._raise_high_watermark(log, log.log_end_offset if up_to is None else Offset(up_to))

    def _raise_high_watermark(self, log: MemoryPartition, high_watermark: Offset) -> None:
        log.high_watermark = high_watermark
        for listener in list(log.listeners):
            listener(high_watermark)

    def read(self, partition: PartitionIndex, offset: Offset) -> bytes:
        batches = [batch for _, next_offset, batch in self.partition(partition).batches if next_offset > offset]
        return b"".join(batches[: self.read_batches])

    def log_start_offset(self, partition: PartitionIndex) -> Offset:
        return self.partition(partition).log_start_offset

    def log_end_offset(self, partition: PartitionIndex) -> Offset:
        return self.partition(partition).log_end_offset

    def high_watermark(self, partition: PartitionIndex) -> Offset:
        return self.partition(partition).high_watermark

    def on_high_watermark(self, partition: PartitionIndex, callback: Callable[[Offset], None]) -> Subscription:
        return Subscription(self.partition(partition).listeners, callback)

    def records(self, partition: PartitionIndex) -> list[Record]:
        """Returns all records of a partition, for a test to inspect."""
        return [record for _, _, batch in self.partition(partition).batches for record in decode_batch(batch)]
