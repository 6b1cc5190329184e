"""Named timers of all shards on one timer of the event loop, cheap to move, and lenient with clients after a stall.

Theory of operation. Each heartbeat moves its member's session alarm, tens of thousands of times a second. So moving an
alarm to a later time only changes its deadline. The heap still holds the old time; when that time comes, the alarm is
put back. Only an alarm that moves to an earlier time gets a second heap entry. A cancelled alarm stays in the heap
until its time and is dropped then.

Deadlines are on a clock that counts only the time in which the event loop could read requests. The queue wakes twice a
second. If it wakes late, the loop was stalled (a stopped process, a slow disk) and no request could be read. The stall
is subtracted from the clock, which extends all deadlines by the stall. Nothing fires until the requests that waited in
the sockets have been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from klamm.core.coordinator.shard_contract import TimerKey
from klamm.runtime.ports import Cancellable, Timers

__all__ = ["Alarm", "AlarmQueue", "Alarms"]

_TICK_MS: Final = 500.0
"""The longest time between two wake-ups, which limits how precisely a stall is measured."""
_STALL_MS: Final = 500.0
"""A wake-up that is late by more than this is a stall; by less, the loop is only busy."""
_STEP_MS: Final = 4.0
"""After this time of firing, the event loop gets control back before the rest fires."""


class Alarm:
    """One alarm, from its first arming until it fires or is cancelled; `AlarmQueue` moves it."""

    __slots__ = ("_tied", "deadline_ms", "key", "owner", "queued_at_ms")

    def __init__(self, owner: Alarms, key: TimerKey) -> None:
        self.owner = owner
        self.key = key
        self.deadline_ms: float | None = None
        self.queued_at_ms: float | None = None
        self._tied: Cancellable | None = None

    def tie(self, dependent: Cancellable) -> None:
        """Cancels `dependent` as soon as the alarm is no longer armed; cancels the previous dependent now."""
        self.untie()
        self._tied = dependent

    def untie(self) -> None:
        """Cancels the dependent of the alarm, if it has one."""
        tied, self._tied = self._tied, None
        if tied is not None:
            tied.cancel()


class Alarms:
    """The alarms of one shard; `fire` is called with the key of an expired alarm."""

    __slots__ = ("_alarms", "_queue", "fire")

    def __init__(self, queue: AlarmQueue, fire: Callable[[TimerKey], None]) -> None:
        self._queue = queue
        self._alarms: dict[TimerKey, Alarm] = {}
        self.fire = fire

    def arm(self, key: TimerKey, delay_ms: float) -> None:
        """Arms the alarm to fire after the delay; replaces an earlier deadline of the same key."""
        alarm = self._alarms.get(key)
        if alarm is None:
            alarm = self._alarms[key] = Alarm(self, key)
        self._queue.set_deadline(alarm, delay_ms)

    def armed(self, key: TimerKey) -> Alarm | None:
        """Returns the alarm of the key, None if it is not armed."""
        return self._alarms.get(key)

    def cancel(self, key: TimerKey) -> None:
        """Cancels the alarm; does nothing if it is not armed."""
        alarm = self._alarms.pop(key, None)
        if alarm is not None:
            alarm.deadline_ms = None
            alarm.untie()

    def cancel_all(self) -> None:
        """Cancels all alarms of the shard."""
        for alarm in self._alarms.values():
            alarm.deadline_ms = None
            alarm.untie()
        self._alarms.clear()

    def forget(self, key: TimerKey) -> None:
        """Removes an alarm that is about to fire, and cancels its dependent."""
        self._alarms.pop(key).untie()

    def __len__(self) -> int:
        return len(self._alarms)


class AlarmQueue:
    """All alarms of one runtime."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = count()
        self._stalled_ms = 0.0
        self._wake_up: Cancellable | None = None
        self._wake_up_at_ms = 0.0

    def set_deadline(self, alarm: Alarm, delay_ms: float) -> None:
        """Sets the deadline of an alarm that is armed, or that its `Alarms` is about to arm."""
        now_ms = self._timers.now_ms()
        if self._wake_up is not None and now_ms - self._wake_up_at_ms > _STALL_MS:
            # Requests that waited in the sockets are read before the queue wakes: the delay begins after the stall.
            self._note_stall(now_ms)
        deadline_ms = now_ms - self._stalled_ms + delay_ms
        alarm.deadline_ms = deadline_ms
        queued_at_ms = alarm.queued_at_ms
        if queued_at_ms is None or deadline_ms < queued_at_ms:
            self._enter(alarm, deadline_ms)
            if self._wake_up is None or deadline_ms + self._stalled_ms < self._wake_up_at_ms:
                self._plan_wake_up()

    def stop(self) -> None:
        """Drops all alarms and cancels the next wake-up."""
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        self._heap.clear()

    def _enter(self, alarm: Alarm, deadline_ms: float) -> None:
        alarm.queued_at_ms = deadline_ms
        heappush(self._heap, (deadline_ms, next(self._order), alarm))

    def _plan_wake_up(self, at_ms: float | None = None) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        if not self._heap:
            return
        if at_ms is None:
            now_ms = self._timers.now_ms()
            at_ms = max(now_ms, min(self._heap[0][0] + self._stalled_ms, now_ms + _TICK_MS))
        self._wake_up_at_ms = at_ms
        self._wake_up = self._timers.call_at(at_ms, self._wake)

    def _wake(self) -> None:
        self._wake_up = None
        now_ms = self._timers.now_ms()
        if now_ms - self._wake_up_at_ms > _STALL_MS:
            self._note_stall(now_ms)
            return
        active_ms = now_ms - self._stalled_ms
        self._fire_due(active_ms)
        self._plan_wake_up()

    def _note_stall(self, now_ms: float) -> None:
        self._stalled_ms += now_ms - self._wake_up_at_ms
        self._plan_wake_up(now_ms + _TICK_MS)

    def _fire_due(self, active_ms: float) -> None:
        due = []
        while self._heap and self._heap[0][0] <= active_ms:
            queued_at_ms, _, alarm = heappop(self._heap)
            if alarm.queued_at_ms != queued_at_ms:
                continue  # A second entry with an earlier time has come up already.
            alarm.queued_at_ms = None
            if alarm.deadline_ms is None:
                continue
            if alarm.deadline_ms > active_ms:
                self._enter(alarm, alarm.deadline_ms)
            else:
                due.append(alarm)
        until_ms = self._timers.now_ms() + _STEP_MS
        for index, alarm in enumerate(due):
            if index and self._timers.now_ms() >= until_ms:
                self._put_back(due[index:])
                return
            # An alarm fired before this one may have moved or cancelled it.
            if alarm.deadline_ms is None:
                continue
            if alarm.deadline_ms > active_ms:
                if alarm.queued_at_ms is None:
                    self._enter(alarm, alarm.deadline_ms)
                continue
            alarm.deadline_ms = None
            alarm.owner.forget(alarm.key)
            alarm.owner.fire(alarm.key)

    def _put_back(self, alarms: Iterable[Alarm]) -> None:
        for alarm in alarms:
            if alarm.deadline_ms is not None and alarm.queued_at_ms is None:
                self._enter(alarm, alarm.deadline_ms)
