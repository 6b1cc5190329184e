"""The runtime's ports on one simulated broker: clocks, ids, promises and threads."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from tests.simulation.loop import Event, EventLoop, Process

from klamm.protocol.types import Millis
from klamm.runtime.ports import Runnable

__all__ = ["Clock", "Promise", "Promises", "RandomIds", "Threads", "follow"]

START_MS = 1_700_000_000_000


class Clock:
    """A broker's clocks: the world's monotonic clock, and a wall clock that may jump.

    A slow call, such as a read of a slow disk, takes time in which nothing else runs on the broker. `pass_time` then
    moves the broker's clock ahead, and its timers run no earlier than that.
    """

    def __init__(self, loop: EventLoop, process: Process, jump_ms: int) -> None:
        self._loop = loop
        self._process = process
        self._busy_until_ms = 0.0
        self.jump_ms = jump_ms

    def now_ms(self) -> float:
        return max(self._loop.now_ms, self._busy_until_ms)

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Event:
        return self._loop.call_at(max(deadline_ms, self.now_ms()), callback, self._process)

    def call_soon(self, callback: Callable[[], None]) -> Event:
        """Schedules a callback after all events of this moment: then one turn of the loop is over."""
        return self.call_at(self.now_ms(), callback)

    def pass_time(self, milliseconds: int) -> None:
        """Keeps the broker busy for so long."""
        if milliseconds:
            self._busy_until_ms = self.now_ms() + milliseconds

    def wall(self) -> Millis:
        """Returns the milliseconds since the epoch on this broker's wall clock."""
        return Millis(START_MS + int(self.now_ms()) + self.jump_ms)


class RandomIds:
    """A source of member ids and UUIDs, as a broker creates them."""

    def __init__(self, loop: EventLoop) -> None:
        self._random = loop.random

    def member_id(self, prefix: str) -> str:
        return f"{prefix}-{self._random.getrandbits(48):012x}"

    def uuid(self) -> str:
        return f"{self._random.getrandbits(48):012x}"


class Promise:
    """A future answer. Waiting code is woken later, never inside `set_result`; `observe` is called at once."""

    __slots__ = ("_loop", "_observe", "_process", "_waiting", "result")

    def __init__(self, loop: EventLoop, process: Process, observe: Callable[[Any], None] | None) -> None:
        self._loop = loop
        self._process = process
        self._observe = observe
        self._waiting: list[Callable[[], None]] = []
        self.result: Any = None

    def done(self) -> bool:
        return self.result is not None

    def set_result(self, result: Any, /) -> None:
        assert self.result is None
        self.result = result
        if self._observe is not None:
            self._observe(result)
        for callback in self._waiting:
            self._loop.call_at(self._loop.now_ms, callback, self._process)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Schedules a callback for the result; the result must not be set yet."""
        self._waiting.append(callback)

    def __await__(self) -> Generator[Promise, None, Any]:
        if self.result is None:
            yield self
        return self.result


def follow(answer: Any, callback: Callable[[Any], None]) -> None:
    """Calls back with the result of an awaitable of the runtime, at once if it need not wait."""
    steps = answer.__await__()

    def step() -> None:
        try:
            promise: Promise = next(steps)
        except StopIteration as stop:
            callback(stop.value)
        else:
            promise.when_done(step)

    step()


class Promises:
    """A factory of promises; `observe` is given to the next promises, and called with their results."""

    def __init__(self, loop: EventLoop, process: Process) -> None:
        self._loop = loop
        self._process = process
        self.observe: Callable[[Any], None] | None = None

    def create_future(self) -> Promise:
        return Promise(self._loop, self._process, self.observe)


class Threads:
    """Simulated threads: a task is done after a while, in which other events run."""

    def __init__(self, loop: EventLoop, process: Process, delay_ms: tuple[int, int]) -> None:
        self._loop = loop
        self._process = process
        self._delay_ms = delay_ms

    def submit(self, task: Runnable, done: Callable[[object], None]) -> None:
        outcome: object
        try:
            outcome = task.run()
        except Exception as error:
            outcome = error
        self._loop.call_later(self._loop.between(*self._delay_ms), partial(done, outcome), self._process)
