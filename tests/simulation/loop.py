"""The only clock, the only queue and the only source of chance in a simulated world.

Events run in the order of (time, sequence), one at a time: one event is one step. All random values are drawn from
`random`, in the order of the steps. So the seed decides everything that happens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

__all__ = ["Event", "EventLoop", "Process"]


class Process:
    """A process on the loop. It may be stopped for a while (SIGSTOP), and it may die.

    A restart is a new process. Events of a dead process never run. Events of a stopped process wait until the process
    continues. Then messages from the network run first: an event loop reads its sockets before it looks at its timers.
    """

    __slots__ = ("_held", "_loop", "is_alive", "is_broker", "is_stopped", "went_on_ms")

    def __init__(self, loop: EventLoop, *, is_broker: bool = False) -> None:
        self._loop = loop
        self.is_broker = is_broker
        self._held: list[Event] = []
        self.is_alive = True
        self.is_stopped = False
        self.went_on_ms = -math.inf
        """When the process went on last."""

    def stop(self) -> None:
        """Stops the process."""
        self.is_stopped = True

    def go_on(self) -> None:
        """Continues the process, and runs the events that became due meanwhile."""
        self.is_stopped = False
        self.went_on_ms = self._loop.now_ms
        held, self._held = self._held, []
        for event in sorted(held, key=lambda event: not event.is_message):
            self._loop.enter(self._loop.now_ms, event)

    def kill(self) -> None:
        """Kills the process; its pending events never run."""
        self.is_alive = False
        self._held.clear()

    def hold(self, event: Event) -> None:
        """Keeps an event that became due while the process is stopped."""
        self._held.append(event)


class Event:
    """A scheduled callback."""

    __slots__ = ("callback", "is_message", "process")

    def __init__(self, callback: Callable[[], None], process: Process | None, is_message: bool) -> None:
        self.callback: Callable[[], None] | None = callback
        self.process = process
        self.is_message = is_message

    def cancel(self) -> None:
        """Cancels the event; has no effect if the event has already run."""
        self.callback = None


class EventLoop:
    """The queue of all events."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.step = 0
        self.process: Process | None = None
        """The process of the current step; None if the step belongs to no process."""
        self.after_step: Callable[[], None] = lambda: None
        self._queue: list[tuple[float, int, Event]] = []
        self._order = 0

    def call_at(
        self,
        at_ms: float,
        callback: Callable[[], None],
        process: Process | None = None,
        *,
        is_message: bool = False,
    ) -> Event:
        """Schedules a callback at that time, or now if that time has passed. The callback runs only if the process is
        alive.
        """
        event = Event(callback, process, is_message)
        self.enter(at_ms, event)
        return event

    def call_later(self, delay_ms: float, callback: Callable[[], None], process: Process | None = None) -> Event:
        """Schedules a callback after a delay."""
        return self.call_at(self.now_ms + delay_ms, callback, process)

    def enter(self, at_ms: float, event: Event) -> None:
        """Puts an event into the queue, behind all other events of the same time."""
        self._order += 1
        heappush(self._queue, (at_ms, self._order, event))

    def run_until(self, end_ms: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Runs events until that time, or until `is_over` returns True."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            at_ms, _, event = heappop(queue)
            callback, process = event.callback, event.process
            if callback is None:
                continue
            if process is not None:
                if not process.is_alive:
                    continue
                if process.is_stopped:
                    process.hold(event)
                    continue
            self.now_ms = max(self.now_ms, at_ms)
            self.step += 1
            event.callback = None
            self.process = process
            callback()
            self.after_step()
            if is_over():
                return
        self.now_ms = max(self.now_ms, end_ms)

    # Chance

    def chance(self, probability: float) -> bool:
        """Returns True with this probability."""
        return probability > 0 and self.random.random() < probability

    def between(self, low: float, high: float) -> int:
        """Returns a random integer from `low` to `high`, both included."""
        return int(low + self.random.random() * (high - low + 1))
