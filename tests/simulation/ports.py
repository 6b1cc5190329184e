"""The runtime's ports on one simulated broker: its clocks, its ids, its promises, its other threads."""

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
    """A broker's clocks: the monotonic one, which is the world's, and the one on the wall, which may jump.

    A slow call, such as a read of a slow disk, takes time while nothing else runs on the broker: `pass_time` moves the
    broker's clock ahead, and its timers run no earlier than that.
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
        """A turn of the loop is over when all that happens at this moment has happened."""
        return self.call_at(self.now_ms(), callback)

    def pass_time(self, milliseconds: int) -> None:
        """Be busy for so long."""
        if milliseconds:
            self._busy_until_ms = self.now_ms() + milliseconds

    def wall(self) -> Millis:
        """Milliseconds since the epoch, as this broker believes."""
        return Millis(START_MS + int(self.now_ms()) + self.jump_ms)


class RandomIds:
    """Member ids as a broker makes them."""

    def __init__(self, loop: EventLoop) -> None:
        self._random = loop.random

    def member_id(self, prefix: str) -> str:
        return f"{prefix}-{self._random.getrandbits(48):012x}"

    def uuid(self) -> str:
        return f"{self._random.getrandbits(48):012x}"


class Promise:
    """An answer to come. Who waits is woken later, never inside `set_result`; `observe` is called there and then."""

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
        """Call back once there is a result, which there is not yet."""
        self._waiting.append(callback)

    def __await__(self) -> Generator[Promise, None, Any]:
        if self.result is None:
            yield self
        return self.result


def follow(answer: Any, callback: Callable[[Any], None]) -> None:
    """Call back with what an awaitable of the runtime comes to, at once if it does not have to wait."""
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
    """Where promises come from; `observe` is handed to the next ones, to see them kept."""

    def __init__(self, loop: EventLoop, process: Process) -> None:
        self._loop = loop
        self._process = process
        self.observe: Callable[[Any], None] | None = None

    def create_future(self) -> Promise:
        return Promise(self._loop, self._process, self.observe)


class Threads:
    """Work elsewhere: it is done after a while, with the world gone on meanwhile."""

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
