"""The simulated world's only clock, only queue and only source of chance.

Events run in the order of (time, sequence), one at a time: one event is one step. What is drawn at random is drawn from
`random`, in the order of the steps. So a seed decides everything that happens.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

__all__ = ["Event", "EventLoop", "Process"]


class Process:
    """Something that runs on the loop, may be stopped for a while (SIGSTOP) and dies.

    A new life is a new process. Events of a dead process never happen; those of a stopped one wait, and when it goes on
    what came from the network comes first: an event loop reads its sockets before it looks at its timers.
    """

    __slots__ = ("_held", "_loop", "is_alive", "is_broker", "is_stopped")

    def __init__(self, loop: EventLoop, *, is_broker: bool = False) -> None:
        self._loop = loop
        self.is_broker = is_broker
        self._held: list[Event] = []
        self.is_alive = True
        self.is_stopped = False

    def stop(self) -> None:
        """Stand still."""
        self.is_stopped = True

    def go_on(self) -> None:
        """Run what has become due meanwhile, and run again."""
        self.is_stopped = False
        held, self._held = self._held, []
        for event in sorted(held, key=lambda event: not event.is_message):
            self._loop.enter(self._loop.now_ms, event)

    def kill(self) -> None:
        """Die; nothing that was to happen here happens."""
        self.is_alive = False
        self._held.clear()

    def hold(self, event: Event) -> None:
        """Keep an event that came up while the process stands still."""
        self._held.append(event)


class Event:
    """Something that is going to happen."""

    __slots__ = ("callback", "is_message", "process")

    def __init__(self, callback: Callable[[], None], process: Process | None, is_message: bool) -> None:
        self.callback: Callable[[], None] | None = callback
        self.process = process
        self.is_message = is_message

    def cancel(self) -> None:
        """It is not going to happen; harmless if it has."""
        self.callback = None


class EventLoop:
    """The queue of all events."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.step = 0
        self.process: Process | None = None
        """Where the present step happens, if it does in some process."""
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
        """Call back at that time, or now if it has passed, if the process lives then."""
        event = Event(callback, process, is_message)
        self.enter(at_ms, event)
        return event

    def call_later(self, delay_ms: float, callback: Callable[[], None], process: Process | None = None) -> Event:
        """Call back when the time has passed."""
        return self.call_at(self.now_ms + delay_ms, callback, process)

    def enter(self, at_ms: float, event: Event) -> None:
        """Put an event into the queue, behind all others of its time."""
        self._order += 1
        heappush(self._queue, (at_ms, self._order, event))

    def run_until(self, end_ms: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let things happen until that time, or until it is over."""
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
        """Whether something happens that happens with this probability."""
        return probability > 0 and self.random.random() < probability

    def between(self, low: float, high: float) -> int:
        """A whole number of milliseconds, or of anything, both ends included."""
        return int(low + self.random.random() * (high - low + 1))
